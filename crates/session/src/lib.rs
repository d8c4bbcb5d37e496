//! Identity, handshake, keys and records
