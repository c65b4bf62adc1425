//! What one request may cost the daemon: work and bytes are bounded by the request's size and the state that it meets.
