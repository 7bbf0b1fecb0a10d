"""Problems made the way a user makes them: one class in one file, each with its classical rule and hindsight bound."""
