"""Renders records: tables, Markdown, HTML, CSV. Never grades."""
