"""Tools for course authors: they make what the labs ship."""
