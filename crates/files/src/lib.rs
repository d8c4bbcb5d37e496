//! The file transfer: protocol, server, client
