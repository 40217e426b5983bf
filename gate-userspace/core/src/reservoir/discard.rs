//! Why a connection is closed. Every one that ends has exactly one reason, and it is a metric's label.

/// The reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Discard {
    /// Its end had come when a client wanted it.
    ExpiredOnCheckout,
    /// Its end came while a client used it.
    ExpiredOnReturn,
    /// The scan found it past its end.
    ExpiredOnScan,
    /// The scan found it inside its guard window.
    ExpiringSoonOnScan,
    /// It was inside its guard window when a client wanted it or gave it back.
    InsufficientRemainingLifetime,
    /// It came back when the bucket holds more connections than it may keep.
    ReservoirFull,
    /// It broke, or its state is not known.
    BadConnection,
    /// It could not be brought back to a clean state.
    ResetFailed,
    /// Whoever used it dropped it without a word.
    LeaseLost,
    /// It was let go on purpose: a shutdown, a bucket that cooled, or another identity or node that needs the slot.
    Drained,
}

impl Discard {
    /// Every reason, for metrics that stand at zero from the start.
    pub const ALL: [Self; 10] = [
        Self::ExpiredOnCheckout,
        Self::ExpiredOnReturn,
        Self::ExpiredOnScan,
        Self::ExpiringSoonOnScan,
        Self::InsufficientRemainingLifetime,
        Self::ReservoirFull,
        Self::BadConnection,
        Self::ResetFailed,
        Self::LeaseLost,
        Self::Drained,
    ];

    /// The reason as a metric's label.
    pub fn label(self) -> &'static str {
        match self {
            Self::ExpiredOnCheckout => "expired_on_checkout",
            Self::ExpiredOnReturn => "expired_on_return",
            Self::ExpiredOnScan => "expired_on_scan",
            Self::ExpiringSoonOnScan => "expiring_soon_on_scan",
            Self::InsufficientRemainingLifetime => "insufficient_remaining_lifetime",
            Self::ReservoirFull => "reservoir_full",
            Self::BadConnection => "bad_connection",
            Self::ResetFailed => "reset_failed",
            Self::LeaseLost => "lease_lost",
            Self::Drained => "drained",
        }
    }
}
