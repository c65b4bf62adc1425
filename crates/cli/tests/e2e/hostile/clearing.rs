//! Directories of jobs that are emptied while their user makes files in them.
