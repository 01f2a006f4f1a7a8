//! Events: how far a stream was when the event was recorded.
//!
//! An event is a point of its stream's slot. It says when work is over and nothing about its bytes: a batch the device
//! refused counts as over, and what it was to write is claimed as always.

use super::waits::Deadline;
use super::{Core, Device, Handle};
use crate::error::{Error, Result};
use crate::failure::Point;
use crate::stream::Backend;

/// An event.
pub(super) struct Event {
    /// Nothing where the stream had no work yet: it is over.
    point: Option<Point>,
}

impl<B: Backend> Device<B> {
    /// Records an event behind everything enqueued on the stream, which is submitted: a new one for the null handle,
    /// otherwise this one again. What a refusal or a loss answers is no reason not to record it.
    pub fn event_record(&self, stream: u64, event: Handle) -> (Handle, Result) {
        let begun = self.with(|core| {
            if !event.is_null() {
                core.events.check(event, "event")?;
            }
            let slot = core.streams.slot_of(stream);
            Ok::<_, Error>((slot, core.streams.last(slot)))
        });
        let (slot, point) = match begun {
            Ok(begun) => begun,
            Err(error) => return (event, Err(error)),
        };
        let refused = self.usable().and_then(|()| self.flush_slot(slot));
        self.with(|core| match core.record_event(event, point) {
            Ok(event) => (event, refused),
            Err(error) => (event, Err(error)),
        })
    }

    /// Waits until everything before the event is over.
    pub fn event_wait(&self, event: Handle, timeout_ns: u64) -> Result {
        let deadline = Deadline::after(timeout_ns);
        let point = self.point_of(event)?;
        self.usable()?;
        point.map_or(Ok(()), |point| self.wait_for(point, deadline))
    }

    /// Whether everything before the event is over; `NotReady` if it is not.
    pub fn event_status(&self, event: Handle) -> Result {
        match self.event_wait(event, 0) {
            Err(Error::Timeout) => Err(Error::NotReady),
            answer => answer,
        }
    }

    /// Work enqueued on the stream from now on comes after everything before the event. The device waits, no thread does.
    pub fn stream_wait_event(&self, stream: u64, event: Handle) -> Result {
        let point = self.point_of(event)?;
        self.usable()?;
        let Some(point) = point else {
            return Ok(());
        };
        let told = self.with(|core| {
            let slot = core.streams.slot_of(stream);
            Ok(core.streams.after(&self.backend, slot, &[point])?)
        });
        self.naming_loss(told)
    }

    /// Forgets an event; threads that wait for it go on waiting. The null handle is fine.
    pub fn event_destroy(&self, event: Handle) -> Result {
        if event.is_null() {
            return Ok(());
        }
        self.with(|core| {
            core.events.check(event, "event")?;
            core.events.remove(event);
            Ok(())
        })
    }

    fn point_of(&self, event: Handle) -> Result<Option<Point>> {
        self.with(|core| Ok(core.events.resolve(event, "event")?.point))
    }
}

impl<B: Backend> Core<B> {
    fn record_event(&mut self, event: Handle, point: Option<Point>) -> Result<Handle> {
        if event.is_null() {
            return self.events.insert(Event { point }).map_err(|_| self.events.refusal("events").into());
        }
        // It may have been destroyed meanwhile.
        self.events.check(event, "event")?;
        if let Some(known) = self.events.get_mut(event) {
            known.point = point;
        }
        Ok(event)
    }

    /// The device goes away, and every event with it.
    pub(super) fn forget_events(&mut self) {
        let events: Vec<_> = self.events.iter().map(|(handle, _)| handle).collect();
        for event in events {
            self.events.remove(event);
        }
    }
}
