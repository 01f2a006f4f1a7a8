//! The instance: what is asked of the loader and the layers before any device is seen.

use super::fault::{fault, with_code};
use super::messages::{Messages, messenger_info};
use super::{entries, loader, messages};
use crate::code::Code;
use crate::error::Fault;
use crate::room::Room;
use ash::{ext, khr, vk};
use std::ffi::{CStr, c_char};
use std::sync::Arc;

const VALIDATION_LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// A call that enumerates may say `INCOMPLETE` when the list grew between its two halves; a driver that says so for
/// ever must not hang us.
const ENUMERATION_TRIES: usize = 4;

/// Runs one of Vulkan's two-call enumerations.
pub(super) fn enumerate<T: Clone + Default>(
    function: &'static str,
    mut call: impl FnMut(&mut u32, *mut T) -> vk::Result,
) -> Result<Vec<T>, Fault> {
    let mut result = vk::Result::INCOMPLETE;
    for _ in 0..ENUMERATION_TRIES {
        let mut count = 0;
        result = call(&mut count, std::ptr::null_mut());
        if result != vk::Result::SUCCESS {
            break;
        }
        let mut list = Vec::new();
        list.make_room(count as usize)?;
        list.resize(count as usize, T::default());
        result = call(&mut count, list.as_mut_ptr());
        match result {
            vk::Result::SUCCESS => {
                list.truncate(count as usize);
                return Ok(list);
            }
            vk::Result::INCOMPLETE => continue,
            _ => break,
        }
    }
    Err(fault(result, function, "while enumerating"))
}

/// What the instance is made for.
pub(super) struct InstanceOptions {
    pub(super) get_instance_proc_addr: Option<vk::PFN_vkGetInstanceProcAddr>,
    pub(super) validation: bool,
    pub(super) debug_labels: bool,
    pub(super) dispatch: tracing::Dispatch,
}

/// An instance, its messenger, and the loader they came from.
pub(super) struct Instance {
    pub(super) raw: ash::Instance,
    /// The version the instance was made for; no device is used beyond it.
    pub(super) api_version: u32,
    /// Debug utils are on.
    pub(super) debug_utils: bool,
    pub(super) messages: Arc<Messages>,
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    entry: ash::Entry,
}

impl Instance {
    pub(super) fn create(options: &InstanceOptions) -> Result<Instance, Fault> {
        messages::begin_operation();
        let entry = loader::open(options.get_instance_proc_addr)?;
        // SAFETY: the entry was loaded by a loader that knows `vkCreateInstance`.
        let loader_version = unsafe { entry.try_enumerate_instance_version() }
            .map_err(|result| fault(result, "vkEnumerateInstanceVersion", "while asking for the loader's version"))?
            .unwrap_or(vk::API_VERSION_1_0);
        if loader_version < vk::API_VERSION_1_2 {
            return Err(Fault::new(
                Code::InitializationFailed,
                format!("Vulkan 1.2 is needed; the loader speaks {}", Version(loader_version)),
            ));
        }
        let api_version = loader_version.min(vk::API_VERSION_1_3);

        let global = extensions(&entry, None)?;
        let mut wanted: Vec<&CStr> = Vec::new();
        let mut flags = vk::InstanceCreateFlags::empty();
        if has(&global, khr::portability_enumeration::NAME) {
            wanted.push(khr::portability_enumeration::NAME);
            flags |= vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR;
        }

        let mut of_layer = Vec::new();
        let mut layers: Vec<&CStr> = Vec::new();
        if options.validation {
            entries::require(entries::LAYERS, |name| loader::has(&entry, vk::Instance::null(), name))?;
            require_layer(&entry)?;
            layers.push(VALIDATION_LAYER);
            of_layer = extensions(&entry, Some(VALIDATION_LAYER))?;
        }
        let debug_utils = (options.validation || options.debug_labels)
            && (has(&global, ext::debug_utils::NAME) || has(&of_layer, ext::debug_utils::NAME));
        if debug_utils {
            wanted.push(ext::debug_utils::NAME);
        }
        // The newer extension can also ask for checks between submissions; with the older one only the environment can.
        let by_settings = has(&of_layer, ext::layer_settings::NAME);
        let by_features = !by_settings && has(&of_layer, ext::validation_features::NAME);
        if by_settings {
            wanted.push(ext::layer_settings::NAME);
        } else if by_features {
            wanted.push(ext::validation_features::NAME);
        }

        let messages = Arc::new(Messages::new(options.dispatch.clone()));
        let wanted: Vec<*const c_char> = wanted.iter().map(|name| name.as_ptr()).collect();
        let layers: Vec<*const c_char> = layers.iter().map(|name| name.as_ptr()).collect();
        let application = vk::ApplicationInfo::default().engine_name(c"tidegate").api_version(api_version);
        let mut info = vk::InstanceCreateInfo::default()
            .flags(flags)
            .application_info(&application)
            .enabled_extension_names(&wanted)
            .enabled_layer_names(&layers);

        let mut early = messenger_info(&messages);
        if debug_utils {
            info = info.push_next(&mut early);
        }
        let on = vk::TRUE.to_ne_bytes();
        let settings = [c"validate_sync", c"syncval_submit_time_validation"].map(|name| {
            vk::LayerSettingEXT::default()
                .layer_name(VALIDATION_LAYER)
                .setting_name(name)
                .ty(vk::LayerSettingTypeEXT::BOOL32)
                .values(&on)
        });
        let mut settings = vk::LayerSettingsCreateInfoEXT::default().settings(&settings);
        let enables = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&enables);
        if by_settings {
            info = info.push_next(&mut settings);
        } else if by_features {
            info = info.push_next(&mut features);
        }

        // SAFETY: every pointer in `info` outlives the call; names are NUL-terminated.
        let raw = unsafe { entry.create_instance(&info, None) }.map_err(|result| {
            messages.flush();
            let code = match super::fault::code(result) {
                Code::Unsupported | Code::Driver => Code::InitializationFailed,
                code => code,
            };
            with_code(code, result, "vkCreateInstance", format_args!("({})", loader::drivers_looked_for()))
        })?;
        let has = |name: &CStr| loader::has(&entry, raw.handle(), name);
        if let Err(fault) = entries::require(entries::INSTANCE, has) {
            match has(c"vkDestroyInstance") {
                // SAFETY: nothing was made from the instance.
                true => unsafe { raw.destroy_instance(None) },
                // What cannot be destroyed stays, and so does what it needs.
                false => std::mem::forget((entry, messages)),
            }
            return Err(fault);
        }
        let debug_utils = debug_utils && entries::are_there(entries::MESSENGER, has);
        let mut instance = Instance { raw, api_version, debug_utils, messages, messenger: None, entry };
        if debug_utils {
            let loaded = ext::debug_utils::Instance::new(&instance.entry, &instance.raw);
            // SAFETY: the extension is enabled; `messages` outlives the messenger, see `Drop`.
            let messenger =
                unsafe { loaded.create_debug_utils_messenger(&messenger_info(&instance.messages), None) }
                    .map_err(|result| fault(result, "vkCreateDebugUtilsMessengerEXT", "for validation messages"))?;
            instance.messenger = Some((loaded, messenger));
        }
        Ok(instance)
    }
}

impl Instance {
    pub(super) fn get_instance_proc_addr(&self) -> vk::PFN_vkGetInstanceProcAddr {
        self.entry.static_fn().get_instance_proc_addr
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some((loaded, messenger)) = self.messenger.take() {
            // SAFETY: made by this instance, destroyed once; every device is gone.
            unsafe { loaded.destroy_debug_utils_messenger(messenger, None) };
        }
        // SAFETY: everything made from the instance is gone; `messages`, which its create info names, still lives.
        unsafe { self.raw.destroy_instance(None) };
        self.messages.flush();
    }
}

fn extensions(entry: &ash::Entry, layer: Option<&CStr>) -> Result<Vec<vk::ExtensionProperties>, Fault> {
    let name = layer.map_or(std::ptr::null(), CStr::as_ptr);
    enumerate("vkEnumerateInstanceExtensionProperties", |count, list| {
        // SAFETY: `list` is null or has room for `count` elements.
        unsafe { (entry.fp_v1_0().enumerate_instance_extension_properties)(name, count, list) }
    })
}

/// Whether a list of extensions has one of this name.
pub(super) fn has(extensions: &[vk::ExtensionProperties], name: &CStr) -> bool {
    extensions.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name))
}

fn require_layer(entry: &ash::Entry) -> Result<(), Fault> {
    let layers: Vec<vk::LayerProperties> = enumerate("vkEnumerateInstanceLayerProperties", |count, list| {
        // SAFETY: `list` is null or has room for `count` elements.
        unsafe { (entry.fp_v1_0().enumerate_instance_layer_properties)(count, list) }
    })?;
    if layers.iter().any(|layer| layer.layer_name_as_c_str() == Ok(VALIDATION_LAYER)) {
        return Ok(());
    }
    Err(Fault {
        code: Code::Unsupported,
        vk_result: vk::Result::ERROR_LAYER_NOT_PRESENT.as_raw(),
        vk_function: "vkEnumerateInstanceLayerProperties",
        message: "validation was asked for, but the layer VK_LAYER_KHRONOS_validation is not installed".into(),
    })
}

/// A Vulkan version as people write it.
pub(super) struct Version(pub(super) u32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}.{}.{}",
            vk::api_version_major(self.0),
            vk::api_version_minor(self.0),
            vk::api_version_patch(self.0)
        )
    }
}
