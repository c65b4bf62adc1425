//! Requests batched in one turn, and rows that the store refuses: the store stays writable for everybody.
