//! Form: what is emitted parses back, at every cut and with every bit turned.
