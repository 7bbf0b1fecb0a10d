"""Pictures and pages made of records; nothing here trains or plays."""
