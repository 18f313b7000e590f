"""From a folder of hand-ins to records: intake, the engine, the score."""
