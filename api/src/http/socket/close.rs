//! Why the server closes a WebSocket, and the code by which its client learns it.

/// Why the server closes a WebSocket. The codes from 4400 on but one are those of the protocol
/// graphql-transport-ws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// The server stops.
    Stop,
    /// The socket has lived as long as one may.
    Lifetime,
    /// A store or the server has no room; the client may try again later.
    Busy,
    /// A message is longer than one may be.
    TooLong,
    /// A message is not one of the protocol.
    Message,
    /// An operation came before `connection_ack`.
    Early,
    /// The token is not good, or not any more.
    Token,
    /// `connection_init` did not come in time.
    InitTimeout,
    /// The id of an operation is that of another one under way.
    Duplicate,
    /// The client takes no bytes.
    Slow,
    /// The client does not answer a ping.
    Silent,
    /// The second `connection_init`, or more messages than the client's rate allows.
    TooMany,
}

impl Close {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Stop,
        Self::Lifetime,
        Self::Busy,
        Self::TooLong,
        Self::Message,
        Self::Early,
        Self::Token,
        Self::InitTimeout,
        Self::Duplicate,
        Self::Slow,
        Self::Silent,
        Self::TooMany,
    ];

    /// The code.
    pub fn code(self) -> u16 {
        match self {
            Self::Stop | Self::Lifetime => 1001,
            Self::TooLong => 1009,
            Self::Busy => 1013,
            Self::Message => 4400,
            Self::Early => 4401,
            Self::Token => 4403,
            Self::InitTimeout | Self::Silent => 4408,
            Self::Duplicate => 4409,
            Self::Slow => 4413,
            Self::TooMany => 4429,
        }
    }

    /// The reason that the client reads: 123 bytes at most.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Stop => "the server stops; connect again",
            Self::Lifetime => "the socket is old; connect again",
            Self::Busy => "the server is busy; try again later",
            Self::TooLong => "the message is too long",
            Self::Message => "invalid message: expected one of graphql-transport-ws",
            Self::Early => "Unauthorized: expected connection_init first",
            Self::Token => "Forbidden: the access token is missing, unknown, revoked or expired",
            Self::InitTimeout => "Connection initialisation timeout",
            Self::Duplicate => "Subscriber already exists: expected an id of its own",
            Self::Slow => "the client takes no answers",
            Self::Silent => "the client does not answer a ping",
            Self::TooMany => "Too many initialisation requests, or too many messages",
        }
    }

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Lifetime => "lifetime",
            Self::Busy => "busy",
            Self::TooLong => "too_long",
            Self::Message => "message",
            Self::Early => "early",
            Self::Token => "token",
            Self::InitTimeout => "init_timeout",
            Self::Duplicate => "duplicate",
            Self::Slow => "slow",
            Self::Silent => "silent",
            Self::TooMany => "too_many",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_fits_into_a_control_frame() {
        assert!(Close::ALL.iter().all(|close| close.reason().len() <= 123));
    }
}
