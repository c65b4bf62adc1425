//! What one user says of a program does not count for others.
