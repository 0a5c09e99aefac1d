//! A pause of the work, and its reason.

use std::sync::{Mutex, PoisonError};

use prometheus_client::metrics::gauge::Gauge;

/// A pause, or none.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    why: Mutex<Option<String>>,
    gauge: Gauge,
}

impl Pause {
    /// No pause, told by a gauge.
    pub(crate) fn of(gauge: Gauge) -> Self {
        Self { why: Mutex::new(None), gauge }
    }

    /// Notes that nothing is done for the moment, and why; says so once for each reason.
    pub(crate) fn pause(&self, why: String) {
        let mut known = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref() != Some(&why) {
            tracing::warn!("paused: {why}");
        }
        *known = Some(why);
        self.gauge.set(1);
    }

    /// Notes that it goes on.
    pub(crate) fn go_on(&self) {
        let mut known = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        if known.take().is_some() {
            tracing::info!("it goes on");
        }
        self.gauge.set(0);
    }

    /// The reason, if there is a pause.
    pub(crate) fn why(&self) -> Option<String> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// 1 while there is a pause.
    pub(crate) fn gauge(&self) -> &Gauge {
        &self.gauge
    }
}
