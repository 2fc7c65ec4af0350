//! The epoch that a submitter is in, and the end of calls that got no reply in their epoch.

use crate::device::Device;
use std::sync::atomic::Ordering;

/// The epoch that a submitter is in, or none while its device is lost. Wider than the epochs of
/// the wire, so that "none" compares unequal to each of them and to [`Device::epoch`] of a lost
/// device: a call put into such a device's ring would never end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SubmitterEpoch(u64);

impl SubmitterEpoch {
    const NONE: Self = Self(1 << 32);

    /// The epoch of a device whose [`Device::epoch`] is this.
    pub(super) fn of(epoch: u32) -> Self {
        if epoch == 0 { Self::NONE } else { Self(epoch.into()) }
    }

    /// Does the device, whose [`Device::epoch`] is this, serve this epoch?
    #[inline(always)]
    pub(super) fn is(self, epoch: u32) -> bool {
        self.0 == u64::from(epoch)
    }

    pub(super) fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// 0 for none.
    pub(super) fn number(self) -> u32 {
        if self.is_none() { 0 } else { self.0 as u32 }
    }

    /// See [`Device::is_ending`].
    pub(super) fn is_ending(self, device: &Device) -> bool {
        !self.is_none() && device.is_ending(self.number())
    }
}

/// How a call ended without a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EpochEnd {
    /// The device is lost.
    Lost,
    /// The device began a new epoch.
    Reset,
}

impl EpochEnd {
    /// The end of a call whose epoch is over, while [`Device::epoch`] is this.
    pub(super) fn before(epoch: u32) -> Self {
        if epoch == 0 { Self::Lost } else { Self::Reset }
    }

    /// The end of a call whose epoch is over.
    pub(super) fn of(device: &Device) -> Self {
        Self::before(device.epoch.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_epoch_is_none_of_the_device() {
        let none = SubmitterEpoch::of(0);
        assert!(none.is_none() && none.number() == 0);
        assert!([0, 1, u32::MAX].iter().all(|epoch| !none.is(*epoch)));
    }

    #[test]
    fn an_epoch_is_its_device_s_and_no_other() {
        for epoch in [1, u32::MAX] {
            let of = SubmitterEpoch::of(epoch);
            assert!(of.is(epoch) && !of.is(epoch - 1) && !of.is_none() && of.number() == epoch);
        }
    }

    #[test]
    fn an_end_is_a_loss_unless_an_epoch_followed() {
        assert_eq!([0, 2].map(EpochEnd::before), [EpochEnd::Lost, EpochEnd::Reset]);
    }
}
