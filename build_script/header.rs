//! Makes `include/tidegate/tidegate.h` from `src/ffi/`, one section for each file, and beside it `tidegate_vulkan.h`
//! from the one file that speaks of Vulkan: programs that do not need Vulkan's own headers.
//!
//! cbindgen turns declarations into C; what a C header has beyond declarations (guard, sections, initializers,
//! macros) is added here. The result is only ever compared with the committed header; `scripts/header.sh` asks for a
//! copy to put in its place.

use std::fmt::Write as _;
use std::path::Path;

/// Where the committed headers lie, from the root of the package.
pub(crate) const FOLDER: &str = "include/tidegate";

/// Makes a header of the package at a root.
type Make = fn(&Path) -> Result<String, String>;

/// Their names, and what makes them.
pub(crate) const HEADERS: [(&str, Make); 2] = [("tidegate.h", make), ("tidegate_vulkan.h", make_vulkan)];

/// A part of the header: the file of `src/ffi/` it is made from, its title, and macros that no declaration gives.
struct Section {
    file: &'static str,
    title: &'static str,
    macros: &'static str,
}

const SECTIONS: &[Section] = &[
    Section {
        file: "results",
        title: "Results",
        macros: r"
/** Whether a result is a programming error: nothing changed. A function, so that a call may stand as its argument. */
static inline int TG_IS_MISUSE(tg_result result) { return result <= -1 && result >= -99; }

/**
 * Whether the work did not happen and what it was to write is claimed: a failure or TG_SKIPPED. The caller may go on
 * and look at the end. A function, so that a call may stand as its argument.
 */
static inline int TG_IS_TRACKED(tg_result result) { return result <= -100 || result == TG_SKIPPED; }
",
    },
    Section {
        file: "strings",
        title: "Strings",
        macros: r#"
/** A string literal as a tg_str, in an expression. */
#ifdef __cplusplus
#define TG_STR(literal) (tg_str{ "" literal, sizeof("" literal) - 1 })
#else
#define TG_STR(literal) ((tg_str){ "" literal, sizeof("" literal) - 1 })
#endif

/** A string literal as the initializer of a tg_str, in a static table too. */
#define TG_STR_INIT(literal) { "" literal, sizeof("" literal) - 1 }
"#,
    },
    Section { file: "slices", title: "Handles, slices, uses and claims", macros: "" },
    Section {
        file: "library",
        title: "Library",
        macros: r"
/** A version as a number that orders: what tg_version returns. */
#define TG_MAKE_VERSION(major, minor, patch) (((uint32_t)(major) << 22) | ((uint32_t)(minor) << 12) | (uint32_t)(patch))

/** The version of this header. */
#define TG_VERSION TG_MAKE_VERSION(TG_VERSION_MAJOR, TG_VERSION_MINOR, TG_VERSION_PATCH)
",
    },
    Section { file: "log", title: "Log", macros: "" },
    Section { file: "device", title: "Device", macros: "" },
    Section { file: "buffer", title: "Buffer", macros: "" },
    Section { file: "read", title: "Asynchronous read", macros: "" },
    Section { file: "kernel", title: "Kernel", macros: "" },
    Section { file: "launch", title: "Launch", macros: "" },
    Section { file: "stream", title: "Stream", macros: "" },
    Section { file: "event", title: "Event", macros: "" },
    Section { file: "failures", title: "Failures", macros: "" },
    Section { file: "scope", title: "Write scope", macros: "" },
    Section { file: "report", title: "Report", macros: "" },
];

const TOP: &str = r#"
#ifndef TIDEGATE_H
#define TIDEGATE_H

#include <stddef.h>
#include <stdint.h>

/* TG_STATIC is set by the static library's CMake target and pkg-config file. */
#ifndef TG_API
#if defined(_WIN32) && !defined(TG_STATIC)
#define TG_API __declspec(dllimport)
#else
#define TG_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif
"#;

const TOP_VULKAN: &str = r#"
#ifndef TIDEGATE_VULKAN_H
#define TIDEGATE_VULKAN_H

#include <tidegate/tidegate.h>
#include <vulkan/vulkan_core.h>

#ifdef __cplusplus
extern "C" {
#endif

"#;

/// What a header begins with: an essay, as a comment.
fn essay(root: &Path, file: &str) -> Result<String, String> {
    let mut comment = String::from("/*\n");
    for line in read(&root.join("src/ffi").join(file))?.lines() {
        comment.push_str(format!(" * {line}").trim_end());
        comment.push('\n');
    }
    comment.push_str(" */\n");
    Ok(comment)
}

/// Makes the header for programs that work with Vulkan themselves.
fn make_vulkan(root: &Path) -> Result<String, String> {
    let mut header = essay(root, "essay_vulkan.txt")?;
    header.push_str(TOP_VULKAN);
    header.push_str(with_initializers(&tightened(&declarations(root, "vulkan")?)).trim());
    header.push_str("\n\n#ifdef __cplusplus\n} /* extern \"C\" */\n#endif\n\n#endif /* TIDEGATE_VULKAN_H */\n");
    Ok(header)
}

/// Makes the header of the package at `root`.
fn make(root: &Path) -> Result<String, String> {
    let mut header = essay(root, "essay.txt")?;
    header.push_str(TOP);
    for section in SECTIONS {
        let bar = "-".repeat(112usize.saturating_sub(section.title.len()));
        let _ = write!(header, "\n/* {} {bar} */\n\n", section.title);
        let declarations = declarations(root, section.file)?;
        header.push_str(with_initializers(&tightened(&declarations)).trim());
        header.push('\n');
        header.push_str(section.macros);
    }
    header.push_str("\n#ifdef __cplusplus\n} /* extern \"C\" */\n#endif\n\n#endif /* TIDEGATE_H */\n");
    Ok(header)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What cbindgen makes of one file. Types are asked for by name, because those that no function of the same file uses
/// would be left out.
fn declarations(root: &Path, file: &str) -> Result<String, String> {
    let path = root.join("src/ffi").join(file).with_extension("rs");
    let source = read(&path)?;
    let mut config = cbindgen::Config::from_file(root.join("cbindgen.toml"))?;
    config.export.include = source
        .lines()
        .filter_map(|line| line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub type ")))
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
        .collect();
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(&path)
        .generate()
        .map_err(|error| format!("cbindgen cannot read {}: {error}", path.display()))?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).map_err(|error| error.to_string())
}

/// Puts short comments on one line, negative numbers in parentheses, and related constants one below the other.
fn tightened(declarations: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in declarations.lines() {
        let n = lines.len();
        if line.trim() == "*/" && n >= 2 && lines[n - 2].trim() == "/**" {
            let one = lines[n - 2].clone() + lines[n - 1].trim().trim_start_matches('*') + " */";
            if one.len() <= 120 {
                lines.truncate(n - 2);
                lines.push(one);
                continue;
            }
        }
        lines.push(match line.strip_prefix("#define ").and_then(|define| define.split_once(" -")) {
            Some((name, number)) => format!("#define {name} (-{number})"),
            None if line.starts_with("typedef struct ") => line.to_owned(),
            None => {
                wrapped(&line.replace("struct tg_", "tg_").replace("struct Vk", "Vk").replace("struct PFN_", "PFN_"))
            }
        });
    }
    let text = lines.join("\n");
    let blocks: Vec<&str> = text.trim().split("\n\n").collect();
    let family = |at: usize| blocks.get(at).copied().and_then(family).unwrap_or_default();
    let mut out = String::new();
    for (at, block) in blocks.iter().enumerate() {
        let (here, next) = (family(at), family(at + 1));
        let related = here == next || (at == 0 || family(at - 1) != here) && family(at + 2) != next;
        out.push_str(block);
        out.push_str(if !here.is_empty() && !next.is_empty() && related { "\n" } else { "\n\n" });
    }
    out
}

/// Breaks a long declaration between its parameters.
fn wrapped(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while rest.len() > 120 && line.starts_with("TG_API") {
        let Some(at) = rest[..119].rfind(", ") else { break };
        out.push_str(&rest[..=at]);
        out.push_str("\n    ");
        rest = &rest[at + 2..];
    }
    out + rest
}

/// The first two words of the name of a constant: what it has in common with its family.
fn family(block: &str) -> Option<&str> {
    let name = block.lines().last()?.strip_prefix("#define ")?.split(' ').next()?;
    let second = name.match_indices('_').nth(1).map_or(name.len(), |(at, _)| at);
    Some(&name[..second])
}

/// Adds, after each struct, a macro that lists every member: what zero means is then seen where it is written.
fn with_initializers(declarations: &str) -> String {
    let mut out = String::new();
    let mut members: Option<Vec<(String, String)>> = None;
    for line in declarations.lines() {
        out.push_str(line);
        out.push('\n');
        if line.starts_with("typedef struct ") && line.ends_with('{') {
            members = Some(Vec::new());
        } else if let Some(name) = line.strip_prefix("} ").and_then(|rest| rest.strip_suffix(';')) {
            if let Some(members) = members.take() {
                out.push_str(&initializer(name, &members));
            }
        } else if let Some(members) = &mut members
            && !line.trim_start().starts_with(['/', '*'])
            && let Some(member) = line.trim().strip_suffix(';')
        {
            members.push(split(member));
        }
    }
    out
}

/// The name of a member, and the initializer of its type.
fn split(member: &str) -> (String, String) {
    let (declared, array) = match member.split_once('[') {
        Some((declared, length)) => (declared, Some(length.trim_end_matches(']'))),
        None => (member, None),
    };
    let at = declared.rfind([' ', '*']).map_or(0, |at| at + 1);
    let (kind, name) = (declared[..at].trim(), &declared[at..]);
    let one = match kind {
        _ if kind.ends_with('*') || kind.ends_with("_fn") || kind == "tg_proc" || kind.starts_with("PFN_") => {
            "NULL".to_owned()
        }
        _ if kind.starts_with("Vk") => "VK_NULL_HANDLE".to_owned(),
        // Its initializer takes the literal.
        "tg_str" => "{ NULL, 0 }".to_owned(),
        _ if kind.starts_with("tg_") && kind != "tg_result" => format!("{}_INIT", kind.to_uppercase()),
        _ => "0".to_owned(),
    };
    let value = match array.map(|length| length.parse::<usize>()) {
        None => one,
        Some(Ok(length)) => format!("{{ {} }}", vec![one; length].join(", ")),
        // A text: the empty one fills the array.
        Some(Err(_)) => "\"\"".to_owned(),
    };
    (name.to_owned(), value)
}

fn initializer(name: &str, members: &[(String, String)]) -> String {
    if name == "tg_str" {
        return String::new();
    }
    let macro_name = format!("{}_INIT", name.to_uppercase());
    let value = |(member, value): &(String, String)| match member.as_str() {
        "struct_size" => format!("sizeof({name})"),
        _ => value.clone(),
    };
    let mut out = format!("\n/** Every member of {name} at its default. */\n#define {macro_name} {{ \\\n");
    for (index, member) in members.iter().enumerate() {
        let comma = if index + 1 == members.len() { "" } else { "," };
        let _ = writeln!(out, "    /* {} */ {}{comma} \\", member.0, value(member));
    }
    out.push_str("}\n");
    out
}
