//! SPIRV-Tools' validator, where the build found it.
//!
//! Parsing a module does not make it safe: most modules with one wrong word still parse, and drivers crash on them.

use super::ModuleLimits;
use crate::error::Fault;

#[cfg(not(tidegate_spirv_tools))]
pub(super) const AVAILABLE: bool = false;

#[cfg(not(tidegate_spirv_tools))]
pub(super) fn validate(_: &[u32], _: &ModuleLimits) -> Result<(), Fault> {
    Ok(())
}

#[cfg(tidegate_spirv_tools)]
pub(super) use linked::{AVAILABLE, validate};

#[cfg(tidegate_spirv_tools)]
mod linked {
    use super::{Fault, ModuleLimits};
    use crate::code::Code;
    use std::ffi::{CStr, c_char, c_int};
    use std::ptr::NonNull;

    pub(crate) const AVAILABLE: bool = true;

    #[repr(C)]
    struct Opaque([u8; 0]);

    #[repr(C)]
    struct Binary {
        code: *const u32,
        word_count: usize,
    }

    #[repr(C)]
    struct Diagnostic {
        line: usize,
        column: usize,
        index: usize,
        error: *mut c_char,
        is_text_source: bool,
    }

    unsafe extern "C" {
        fn spvParseTargetEnv(name: *const c_char, environment: *mut c_int) -> bool;
        fn spvContextCreate(environment: c_int) -> *mut Opaque;
        fn spvContextDestroy(context: *mut Opaque);
        fn spvValidatorOptionsCreate() -> *mut Opaque;
        fn spvValidatorOptionsDestroy(options: *mut Opaque);
        fn spvValidatorOptionsSetScalarBlockLayout(options: *mut Opaque, value: bool);
        fn spvValidatorOptionsSetAllowLocalSizeId(options: *mut Opaque, value: bool);
        fn spvValidateWithOptions(
            context: *const Opaque,
            options: *const Opaque,
            binary: *const Binary,
            diagnostic: *mut *mut Diagnostic,
        ) -> c_int;
        fn spvDiagnosticDestroy(diagnostic: *mut Diagnostic);
    }

    /// Frees what the C API made, on every way out.
    struct Owned(NonNull<Opaque>, unsafe extern "C" fn(*mut Opaque));

    impl Owned {
        fn new(made: *mut Opaque, destroy: unsafe extern "C" fn(*mut Opaque)) -> Result<Owned, Fault> {
            let out_of_memory = || Fault::new(Code::OutOfHostMemory, "the validator could not be set up");
            NonNull::new(made).map(|made| Owned(made, destroy)).ok_or_else(out_of_memory)
        }
    }

    impl Drop for Owned {
        fn drop(&mut self) {
            // SAFETY: the pointer came from the creating function that belongs to this destroying one, and only here
            // is it destroyed.
            unsafe { (self.1)(self.0.as_ptr()) }
        }
    }

    /// Validates for Vulkan 1.2, the floor.
    pub(crate) fn validate(words: &[u32], limits: &ModuleLimits) -> Result<(), Fault> {
        // The number differs between versions of SPIRV-Tools; the name does not.
        let mut environment = 0;
        // SAFETY: the name ends in NUL and the result has a place of the size of the C enum.
        if !unsafe { spvParseTargetEnv(c"vulkan1.2".as_ptr(), &mut environment) } {
            return Err(Fault::new(Code::Internal, "this SPIRV-Tools knows no Vulkan 1.2"));
        }
        // SAFETY: the environment is one the library named.
        let context = Owned::new(unsafe { spvContextCreate(environment) }, spvContextDestroy)?;
        // SAFETY: takes nothing.
        let options = Owned::new(unsafe { spvValidatorOptionsCreate() }, spvValidatorOptionsDestroy)?;
        // SAFETY: the options live until the end of this function.
        unsafe {
            spvValidatorOptionsSetScalarBlockLayout(options.0.as_ptr(), limits.scalar_block_layout);
            spvValidatorOptionsSetAllowLocalSizeId(options.0.as_ptr(), limits.local_size_id);
        }
        let binary = Binary { code: words.as_ptr(), word_count: words.len() };
        let mut diagnostic = std::ptr::null_mut();
        // SAFETY: context, options and words outlive the call, which keeps none of them.
        let result =
            unsafe { spvValidateWithOptions(context.0.as_ptr(), options.0.as_ptr(), &binary, &mut diagnostic) };
        let mut text = String::new();
        if let Some(diagnostic) = NonNull::new(diagnostic) {
            // SAFETY: the call gave it to us, and its text, where there is one, ends in NUL; both are read before it
            // is destroyed, once.
            unsafe {
                let seen = diagnostic.as_ref();
                if !seen.error.is_null() {
                    text = CStr::from_ptr(seen.error).to_string_lossy().trim().to_owned();
                }
                spvDiagnosticDestroy(diagnostic.as_ptr());
            }
        }
        match result {
            0 => Ok(()),
            // SPV_ERROR_OUT_OF_MEMORY
            -2 => Err(Fault::new(Code::OutOfHostMemory, "the validator ran out of memory")),
            _ if text.is_empty() => Err(Fault::new(Code::InvalidShader, format!("the validator answered {result}"))),
            _ => Err(Fault::new(Code::InvalidShader, format!("the module is not valid: {text}"))),
        }
    }
}
