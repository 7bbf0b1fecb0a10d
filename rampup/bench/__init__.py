"""How fast an update is, against the least it could take, against a plain transcription and against a rival."""
