//! Root filesystems: made from a project's own files, or fetched and unpacked.
