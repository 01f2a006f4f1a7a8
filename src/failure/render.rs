//! Words for people, rendered from data: log lines, a report's text, its JSON.

use super::name::Name;
use super::report::{Report, Step, StepKind};
use super::roots::Cause;
use super::skips::NewStep;
use crate::code::Code;
use serde_json::{Value, json};
use std::fmt::Write;

/// One line for a root.
pub(super) fn cause_line(cause: &Cause) -> String {
    let mut line = String::new();
    headline(
        &mut line,
        cause.fault.code,
        cause.context.operation,
        &cause.context.kernel,
        &cause.context.label,
        cause.context.stream,
    );
    driver(&mut line, cause.fault.vk_function, cause.fault.vk_result);
    if !cause.fault.message.is_empty() {
        let _ = write!(line, ": {}", cause.fault.message);
    }
    line
}

/// One line for a skip that is logged.
pub(super) fn skip_line(step: &NewStep<'_>, count: u64) -> String {
    let produced: Vec<String> = step.produced.iter().map(|name| Name::shown(name)).collect();
    format!(
        "work skipped {} on this failure, last \"{}\": it needed \"{}\", and would have produced \"{}\"",
        times(count),
        step.work.name,
        step.needed.shown(),
        produced.join("\", \"")
    )
}

fn headline(line: &mut String, code: Code, operation: &str, kernel: &str, label: &str, stream: Option<u64>) {
    line.push_str(code.name());
    if !operation.is_empty() {
        let _ = write!(line, " in {operation}");
    }
    if !kernel.is_empty() {
        let _ = write!(line, ", kernel \"{kernel}\"");
    }
    if !label.is_empty() && label != kernel {
        let _ = write!(line, ", \"{label}\"");
    }
    if let Some(stream) = stream {
        let _ = write!(line, ", stream {stream}");
    }
}

fn driver(line: &mut String, function: &str, result: i32) {
    if !function.is_empty() {
        let _ = write!(line, " ({function} returned {result})");
    }
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn kind_name(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Skip => "skip",
        StepKind::Copy => "copy",
        StepKind::RanOnBadInput => "ran_on_bad_input",
        StepKind::Dropped => "dropped",
        StepKind::UnprovenWrite => "unproven_write",
    }
}

/// The most entries of a list that are put into words; the data has them all.
const MOST: usize = 256;
/// The most claims of one failure that are.
const MOST_CLAIMS: usize = 64;

fn listed<T, W>(list: &[T], word: impl Fn(&T) -> W) -> Vec<W> {
    list.iter().take(MOST).map(word).collect()
}

/// Says how much of a list is missing.
fn missing(text: &mut String, indent: &str, count: usize, most: usize, what: &str) {
    if count > most {
        let _ = writeln!(text, "{indent}and {} more {what}", count - most);
    }
}

fn at_least(step: &Step) -> &'static str {
    if step.at_least { "at least " } else { "" }
}

/// The caller's name and number for work, beside the name it has.
fn called(line: &mut String, name: &str, label: &str, tag: u64) {
    if !label.is_empty() && label != name {
        let _ = write!(line, ", \"{label}\"");
    }
    if tag != 0 {
        let _ = write!(line, ", tag {tag}");
    }
}

fn step_line(step: &Step) -> String {
    let produced = listed(&step.produced, String::clone).join("\", \"");
    let mut line = match step.kind {
        StepKind::Skip if step.needed_kernel => {
            format!("\"{}\" did not run: it is broken; it counts as writing \"{produced}\"", step.kernel)
        }
        StepKind::Skip => {
            format!("\"{}\" did not run: it needed \"{}\" to write \"{produced}\"", step.kernel, step.needed)
        }
        StepKind::Copy => format!("copied from \"{}\" to \"{produced}\"", step.needed),
        StepKind::RanOnBadInput => {
            format!("\"{}\" ran on bad input: it read \"{}\" and wrote \"{produced}\"", step.kernel, step.needed)
        }
        StepKind::UnprovenWrite => format!(
            "\"{}\" ran over claimed bytes of \"{produced}\", and nothing proves that it wrote them: if it writes every one, \
             declare TG_ACCESS_WRITE for them, in tg_kernel_desc::accesses, in the launch or in the scope",
            step.kernel
        ),
        StepKind::Dropped => return format!("{}{} steps dropped", at_least(step), step.count),
    };
    called(&mut line, &step.kernel, &step.label, step.tag);
    if step.count > 1 || step.at_least {
        let _ = write!(line, " ({}{})", at_least(step), times(step.count));
    }
    line
}

impl Report {
    /// The report for a person to read.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if !self.function.is_empty() {
            let _ = write!(text, "{}: ", self.function);
        }
        let _ = write!(text, "{}: {}", self.code.name(), self.code.meaning());
        if !self.field.is_empty() {
            let _ = write!(text, " [{}]", self.field);
        }
        if self.vk_result != 0 {
            let _ = write!(text, " (VkResult {})", self.vk_result);
        }
        if !self.message.is_empty() && self.message != self.code.meaning() {
            let _ = write!(text, "\n  {}", self.message);
        }
        text.push('\n');
        for failure in self.failures.iter().take(MOST) {
            let mut line = format!("failure {}: ", failure.id);
            headline(&mut line, failure.code, &failure.operation, &failure.kernel, &failure.label, failure.stream);
            driver(&mut line, &failure.vk_function, failure.vk_result);
            let _ = writeln!(text, "{line}");
            for line in failure.message.lines() {
                let _ = writeln!(text, "    {line}");
            }
            if failure.tag != 0 {
                let _ = writeln!(text, "  tag {}", failure.tag);
            }
            for step in &failure.path {
                let _ = writeln!(text, "  -> {}", step_line(step));
            }
            if failure.skips > 0 {
                let _ = writeln!(text, "  work skipped on it: {}", times(failure.skips));
            }
            let _ = writeln!(text, "  claims {} bytes", failure.claimed_bytes);
            for claim in failure.claims.iter().take(MOST_CLAIMS) {
                let _ = writeln!(text, "    \"{}\" [{}, {})", claim.label, claim.offset, claim.offset + claim.size);
            }
            missing(&mut text, "    ", failure.claims.len(), MOST_CLAIMS, "ranges");
        }
        missing(&mut text, "", self.failures.len(), MOST, "failures listed by index");
        if self.more {
            let _ = writeln!(text, "and more failures");
        }
        for suspect in self.suspects.iter().take(MOST) {
            let mut line = format!("in flight at the loss: \"{}\"", suspect.name);
            called(&mut line, &suspect.name, &suspect.label, suspect.tag);
            let _ = writeln!(text, "{line}");
        }
        missing(&mut text, "", self.suspects.len(), MOST, "in flight at the loss");
        text
    }

    /// The report for a program to read; `docs/report.schema.json` describes it.
    pub fn json(&self) -> String {
        let failures: Vec<Value> = self
            .failures
            .iter()
            .take(MOST)
            .map(|failure| {
                let claims: Vec<Value> = failure
                    .claims
                    .iter()
                    .take(MOST_CLAIMS)
                    .map(|claim| {
                        json!({
                            "buffer": claim.buffer,
                            "label": *claim.label,
                            "offset": claim.offset,
                            "size": claim.size,
                        })
                    })
                    .collect();
                let path: Vec<Value> = failure
                    .path
                    .iter()
                    .map(|step| {
                        json!({
                            "kind": kind_name(step.kind),
                            "kernel": step.kernel,
                            "label": step.label,
                            "tag": step.tag,
                            "needed": step.needed,
                            "produced": listed(&step.produced, String::clone),
                            "produced_count": step.produced.len(),
                            "count": step.count,
                            "at_least": step.at_least,
                        })
                    })
                    .collect();
                json!({
                    "id": failure.id,
                    "code": failure.code as i32,
                    "code_name": failure.code.name(),
                    "vk_result": failure.vk_result,
                    "vk_function": failure.vk_function,
                    "operation": failure.operation,
                    "kernel": failure.kernel,
                    "stream": failure.stream,
                    "label": failure.label,
                    "tag": failure.tag,
                    "message": failure.message,
                    "claims": claims,
                    "claim_count": failure.claims.len(),
                    "claimed_bytes": failure.claimed_bytes,
                    "skips": failure.skips,
                    "path": path,
                })
            })
            .collect();
        let suspects = listed(
            &self.suspects,
            |suspect| json!({ "name": *suspect.name, "label": *suspect.label, "tag": suspect.tag }),
        );
        json!({
            "schema": 2,
            "function": self.function,
            "field": self.field,
            "code": self.code as i32,
            "code_name": self.code.name(),
            "vk_result": self.vk_result,
            "message": self.message,
            "failures": failures,
            "failure_count": self.failures.len(),
            "more": self.more,
            "suspects": suspects,
            "suspect_count": self.suspects.len(),
        })
        .to_string()
    }
}
