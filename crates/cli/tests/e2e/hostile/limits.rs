//! A job is never less bounded than the process that asked for it.
