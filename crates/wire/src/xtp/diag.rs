//! What is said of what is wrong (`docs/xtp.md`, section 12).

use super::Error;

macro_rules! numbers {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $about:literal])+ $variant:ident = $number:literal,)* }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $about])+ $variant,)*
            /// One that this page does not know.
            Other(u32),
        }

        impl $name {
            /// From the field.
            pub const fn from_number(number: u32) -> Self {
                match number {
                    $($number => $name::$variant,)*
                    other => $name::Other(other),
                }
            }

            /// The field.
            pub const fn number(self) -> u32 {
                match self {
                    $($name::$variant => $number,)*
                    $name::Other(number) => number,
                }
            }
        }
    };
}

numbers! {
    /// The field `code`.
    Code {
        /// FIRST was refused.
        ContextRefused = 1,
        /// An open context was ended.
        ContextAbandoned = 2,
        /// There is no such context.
        InvalidContext = 3,
        /// Something was asked for that is not done.
        RequestRefused = 4,
        /// JCNTL was refused.
        JoinRefused = 5,
        /// The peer violates the protocol.
        ProtocolError = 6,
        /// A packet was too large.
        MaximumPacketSize = 7,
    }
}

numbers! {
    /// The field `val`.
    Reason {
        /// There is no more to say.
        Unspecified = 0,
        /// Nobody listens.
        NoListener = 1,
        /// Options were refused.
        Options = 2,
        /// The address format is not supported.
        AddressFormat = 3,
        /// The address segment is malformed.
        MalformedAddress = 4,
        /// The traffic format is not supported.
        TrafficFormat = 5,
        /// The traffic was refused.
        Traffic = 6,
        /// The traffic segment is malformed.
        MalformedTraffic = 7,
        /// The service is not provided.
        Service = 8,
        /// There is no memory, or no place.
        NoResource = 9,
        /// The host is going down.
        GoingDown = 10,
        /// A retransmission was asked for that cannot be.
        Retransmission = 11,
        /// The context is in another state.
        State = 12,
        /// The group does not take in who asks.
        JoinDenied = 13,
    }
}

/// Code and reason of a DIAG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diag {
    /// What happened.
    pub code: Code,
    /// Why.
    pub reason: Reason,
}

impl Reason {
    /// Why a segment is refused in which this was found; `malformed` if it is no more than that.
    pub(super) fn of(error: Error, malformed: Reason) -> Reason {
        match error {
            Error::Value { field: "aformat" | "adomain", .. } => Reason::AddressFormat,
            Error::Value { field: "tformat", .. } => Reason::TrafficFormat,
            Error::Value { field: "maxdata", .. } => Reason::Traffic,
            Error::Value { field: "service", .. } => Reason::Service,
            _ => malformed,
        }
    }
}
