//! What a report says as JSON is what `docs/report.schema.json` promises.

mod host;

use host::backend::{Call, fault};
use host::rig::{Rig, skipped, triple, whole};
use serde_json::Value;
use tidegate::code::Code;
use tidegate::failure::{Report, StepKind};

struct Schema {
    schemas: boon::Schemas,
    index: boon::SchemaIndex,
}

impl Schema {
    fn new() -> Schema {
        let text = include_str!("../docs/report.schema.json");
        let mut compiler = boon::Compiler::new();
        let schema: Value = serde_json::from_str(text).expect("the schema is JSON");
        compiler.add_resource("report.schema.json", schema).expect("the schema has a name");
        let mut schemas = boon::Schemas::new();
        let index = compiler.compile("report.schema.json", &mut schemas).expect("the schema is a schema");
        Schema { schemas, index }
    }

    fn accepts(&self, value: &Value) -> Result<(), String> {
        self.schemas.validate(value, self.index).map_err(|error| error.to_string())
    }
}

/// A report with roots of several kinds, skips, and a copy in a path.
fn eventful() -> Report {
    let rig = Rig::default();
    let kernel = rig.try_kernel(&triple().encode(), &[], "blur").0;
    let (broken, _) = rig.broken(&[]);
    let [photo, blurred, copied, other] = ["photo", "blurred", "copied", "other"].map(|name| rig.named(64, name));
    rig.taint(whole(photo));
    skipped(rig.launch(kernel, &[whole(photo), whole(blurred)]));
    rig.device.buffer_copy(0, whole(copied), whole(blurred)).expect("a copy runs over claimed bytes");
    skipped(rig.launch(broken, &[whole(copied), whole(other)]));
    let (_, _) = rig.huge();
    rig.device.report_slices(&[whole(other), whole(copied)]).expect("a report")
}

#[test]
fn reports_are_what_the_schema_promises() {
    let schema = Schema::new();
    let report = eventful();
    assert!(report.failures.len() > 1);
    assert!(report.failures.iter().any(|failure| failure.path.iter().any(|step| step.kind == StepKind::Copy)));
    let value: Value = serde_json::from_str(&report.json()).expect("JSON");
    schema.accepts(&value).expect("a report");
    let nothing: Value = serde_json::from_str(&Report::empty().json()).expect("JSON");
    schema.accepts(&nothing).expect("an empty report");
}

#[test]
fn a_loss_and_a_refusal_are_too() {
    let schema = Schema::new();
    for code in [Code::DeviceLost, Code::Driver] {
        let rig = Rig::default();
        let buffer = rig.named(64, "bytes");
        rig.backend().inject(Call::Submit, 1, fault(code, "refused by the test"), false);
        rig.write(whole(buffer), &[1; 64]).expect("enqueued");
        rig.device.stream_flush(0).expect_err("refused");
        let value: Value = serde_json::from_str(&rig.device.report_device().json()).expect("JSON");
        assert_eq!(value["failures"][0]["code_name"], code.name());
        schema.accepts(&value).expect("a report");
    }
}

#[test]
fn the_schema_refuses_what_no_report_is() {
    let schema = Schema::new();
    let good: Value = serde_json::from_str(&eventful().json()).expect("JSON");
    for (member, value) in [("schema", Value::from(1)), ("failures", Value::from("none")), ("news", Value::from(1))] {
        let mut bad = good.clone();
        bad[member] = value;
        assert!(schema.accepts(&bad).is_err(), "{member}");
    }
}
