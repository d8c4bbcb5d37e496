//! The states of a context.

/// State of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// FIRST was or will be sent; nothing was answered.
    Opening,
    /// The listener has kept nothing: FIRST goes again under the key that is a cookie.
    Cookie,
    /// FIRST came; the peer has not shown our key.
    HalfOpen,
    /// Both keys are known.
    Open,
    /// Over; what is asked is answered with END.
    Inactive,
    /// No context, or one that is over.
    Quiescent,
}

impl State {
    /// As views spell it.
    pub const fn name(self) -> &'static str {
        match self {
            State::Opening => "OPENING",
            State::Cookie => "COOKIE",
            State::HalfOpen => "HALF-OPEN",
            State::Open => "OPEN",
            State::Inactive => "INACTIVE",
            State::Quiescent => "QUIESCENT",
        }
    }
}
