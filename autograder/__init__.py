"""The autograder of qwen3-labs: grades hand-ins safely, fast and fairly."""
