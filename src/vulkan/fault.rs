//! One place where a `VkResult` becomes a fault: code, entry point, and words a person can use.
//!
//! Drivers return codes that no specification lists, and codes above zero that leave no object behind. Both are
//! failures here, so nothing but `VK_SUCCESS` ever counts as done.

use super::messages;
use crate::code::Code;
use crate::error::Fault;
use ash::vk;
use std::fmt;

/// A `VkResult` as the specification spells it, or its number where it spells none.
pub(super) struct Named(pub(super) vk::Result);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{:?}", self.0);
        if name.starts_with(|c: char| c.is_ascii_uppercase()) {
            write!(f, "VK_{name} ({})", self.0.as_raw())
        } else {
            write!(f, "VkResult {}", self.0.as_raw())
        }
    }
}

/// The code for a result, whichever call it came from: one that the specification does not list there, or that says
/// nothing, is the driver's own and no loss.
pub(super) fn code(result: vk::Result) -> Code {
    match result {
        vk::Result::ERROR_OUT_OF_HOST_MEMORY => Code::OutOfHostMemory,
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => Code::OutOfDeviceMemory,
        vk::Result::ERROR_DEVICE_LOST => Code::DeviceLost,
        vk::Result::ERROR_INITIALIZATION_FAILED => Code::InitializationFailed,
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => Code::NoDevice,
        vk::Result::ERROR_INVALID_SHADER_NV => Code::InvalidShader,
        vk::Result::ERROR_FEATURE_NOT_PRESENT
        | vk::Result::ERROR_EXTENSION_NOT_PRESENT
        | vk::Result::ERROR_LAYER_NOT_PRESENT
        | vk::Result::ERROR_FORMAT_NOT_SUPPORTED => Code::Unsupported,
        _ => Code::Driver,
    }
}

/// A fault raised by `function`, with the validation messages this thread collected meanwhile. Of a device that is there
/// it is made by [`Gpu::fault`](super::device::Gpu::fault), which takes note of a loss.
pub(super) fn fault(result: vk::Result, function: &'static str, doing: impl fmt::Display) -> Fault {
    with_code(code(result), result, function, doing)
}

/// A fault whose code the caller knows better.
pub(super) fn with_code(code: Code, result: vk::Result, function: &'static str, doing: impl fmt::Display) -> Fault {
    let mut message = format!("{function} returned {} {doing}", Named(result));
    messages::append_collected(&mut message);
    Fault { code, vk_result: result.as_raw(), vk_function: function, message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_code_and_a_name() {
        for raw in (-1_000_300_000..1_000_700_000).step_by(499).chain(-20..20) {
            let result = vk::Result::from_raw(raw);
            assert_eq!(code(result).kind(), crate::code::Kind::Failure);
            assert!(Named(result).to_string().contains(&raw.to_string()));
        }
    }

    #[test]
    fn one_code_alone_is_the_loss() {
        for raw in -1100..20 {
            let result = vk::Result::from_raw(raw);
            let is_lost = fault(result, "vkQueueSubmit2", "for a batch").code == Code::DeviceLost;
            assert_eq!(is_lost, result == vk::Result::ERROR_DEVICE_LOST, "{raw}");
        }
    }
}
