//! Modules made to exhaust whatever reads them.

mod c;
mod host;
#[path = "hostile/modules.rs"]
mod modules;

use c::{Device, DeviceOptions};

#[test]
fn experiment() {
    let spec = std::env::var("TG_CASE").unwrap_or_default();
    c::alone("experiment", &[], || {
        let p: Vec<&str> = spec.split(' ').collect();
        let n = |i: usize| p.get(i).map_or(0, |s| s.parse::<u32>().unwrap());
        let code = match p[0] {
            "file" => std::fs::read(p[1]).unwrap(),
            "calls" => modules::calls(n(1), n(2)),
            "structs" => modules::structs(n(1), n(2), if p.len() > 3 { n(3) } else { u32::MAX }),
            "null_struct" => modules::null_struct(n(1), n(2)),
            "arrays" => modules::arrays(n(1), n(2), n(3) != 0),
            "wide" => modules::wide(n(1)),
            "constants" => modules::constants(n(1), n(2)),
            "constant_chain" => modules::constant_chain(n(1)),
            "spec_chain" => modules::spec_chain(n(1)),
            "loops" => modules::loops(n(1)),
            "selections" => modules::selections(n(1), true),
            "selections_row" => modules::selections(n(1), false),
            "loads" => modules::loads_and_stores(n(1)),
            "additions" => modules::additions(n(1)),
            "copies" => modules::copies(n(1)),
            "switch" => modules::switch(n(1)),
            "functions" => modules::functions(n(1)),
            "variables" => modules::variables(n(1), n(2)),
            "nops" => modules::no_ops((n(1) as usize) << 20),
            other => panic!("{other}"),
        };
        let stack: usize = std::env::var("TG_STACK").map_or(512 << 10, |s| s.parse().unwrap());
        if std::env::var_os("TG_NO_LIMIT").is_none() {
            let limit = libc::rlimit { rlim_cur: 2 << 30, rlim_max: 2 << 30 };
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        }
        if std::env::var_os("TG_INSPECT").is_some() {
            use tidegate::stream::backend::KernelSource;
            use tidegate::vulkan::spirv::{ModuleLimits, inspect};
            std::thread::scope(|s| {
                std::thread::Builder::new()
                    .stack_size(stack)
                    .spawn_scoped(s, || {
                        for trusted in [true, false] {
                            let start = std::time::Instant::now();
                            let r = inspect(
                                &KernelSource {
                                    code: &code,
                                    entry: "main",
                                    constants: &[],
                                    label: "",
                                    trusted,
                                    declares_uses: false,
                                },
                                &ModuleLimits::default(),
                            );
                            let status = std::fs::read_to_string("/proc/self/status").unwrap();
                            let hwm = status.lines().find(|l| l.starts_with("VmHWM")).unwrap();
                            println!(
                                "RESULT {spec} inspect trusted={trusted} {:?} {hwm} {:?}",
                                start.elapsed(),
                                r.map(|_| ()).map_err(|r| r.fault.message)
                            );
                        }
                    })
                    .unwrap();
            });
            return;
        }
        let device = Device::create(DeviceOptions::default()).unwrap();
        let start = std::time::Instant::now();
        std::thread::scope(|s| {
            std::thread::Builder::new()
                .stack_size(stack)
                .spawn_scoped(s, || {
                    let (_, answer) = device.kernel_create(&code, &[]);
                    let message = answer.map_err(|a| format!("{} {}", c::name(a.code), a.message));
                    println!("RESULT {spec} size {} {:?} {:?}", code.len(), start.elapsed(), message);
                })
                .unwrap();
        });
    });
}
