//! Numbers of ICMPv6 (RFC 4443); [`crate::icmp`] reads and writes its messages.

/// Next header's number in an IPv6 header.
pub const NUMBER: u8 = 58;

/// Codes of "destination unreachable" (RFC 4443, section 3.1).
pub mod unreachable {
    /// Port unreachable.
    pub const PORT: u8 = 4;
}

/// Codes of "parameter problem" (RFC 4443, section 3.4; RFC 7112, section 5).
pub mod parameter_problem {
    /// Erroneous header field.
    pub const FIELD: u8 = 0;
    /// Unrecognised next header type.
    pub const NEXT_HEADER: u8 = 1;
    /// Unrecognised option.
    pub const OPTION: u8 = 2;
    /// The first fragment has an incomplete header chain.
    pub const INCOMPLETE_CHAIN: u8 = 3;
}

/// Whether messages of this type are errors (RFC 4443, section 2.1). A redirect is none, but is treated
/// like one (section 2.4).
pub const fn is_error_type(kind: u8) -> bool {
    kind < 128
}
