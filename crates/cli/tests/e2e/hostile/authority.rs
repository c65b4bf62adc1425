//! The matrix of authority on the raw wire: each request, each kind of user, fields that the command line never combines.
