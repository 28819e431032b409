//! What the emulator runs: jobs and a memory image, compiled and run by a host's C++ compiler.
//!
//! With `OXMLX_EMULATE=<an existing folder>` tests write there, compile with g++ and run; without, they are
//! skipped.

use super::super::*;
use crate::record::{Call, Grid, Origin, Word};
use oxmlx_types::{Dtype, Layout};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// A value: where it lies in the image, and how.
#[derive(Clone)]
pub(super) struct Val {
    pub at: usize,
    pub dtype: Dtype,
    pub layout: Layout,
}

impl Val {
    pub fn operand(&self, value: ValueId) -> Operand<'_> {
        let first = self.at + self.layout.offset * self.dtype.size();
        let alignment = 1 << first.trailing_zeros().min(4);
        Operand { value, dtype: self.dtype, layout: &self.layout, alignment, base: self.at }
    }
}

struct Job {
    name: String,
    together: bool,
    grid: Grid,
    words: Vec<(bool, u64)>,
}

/// Jobs and memory.
#[derive(Default)]
pub(super) struct Machine {
    pub image: Vec<u8>,
    jobs: Vec<Job>,
    texts: BTreeMap<String, String>,
}

impl Machine {
    /// Room for `bytes` bytes, `skew` bytes from an aligned address.
    pub fn room(&mut self, bytes: usize, skew: usize) -> usize {
        let at = self.image.len().next_multiple_of(256) + skew;
        self.image.resize(at + bytes, 0xee);
        at
    }

    /// A new row-major value.
    pub fn value(&mut self, dtype: Dtype, shape: &[usize]) -> Val {
        let layout = Layout::contiguous(shape);
        let at = self.room(layout.size() * dtype.size(), 0);
        Val { at, dtype, layout }
    }

    /// Adds a group's launches.
    pub fn add(&mut self, group: &Group, values: &[Val]) {
        let mut e = Encoding::default();
        let operand = |v: ValueId| values[v as usize].operand(v);
        lower(group).unwrap().encode(&operand, &mut e).unwrap();
        let scratch = self.room(e.scratch as usize, 0);
        for (i, call) in e.calls.iter().enumerate() {
            let Call::Kernel { kernel, grid, record } = call else { panic!("no kernel") };
            let end = match e.calls.get(i + 1) {
                Some(Call::Kernel { record, .. }) => *record as usize,
                _ => e.words.len(),
            };
            let words = e.words[*record as usize..end].iter().map(|w| match *w {
                Word::Const(n) => (false, n),
                Word::Address { value, bytes } => {
                    let v = &values[value as usize];
                    (true, (v.at + v.layout.offset * v.dtype.size()) as u64 + bytes)
                }
                Word::Scratch(n) => (true, scratch as u64 + n),
                Word::Param(_) => panic!("no parameters here"),
            });
            let Origin::Generated(text) = &kernel.origin else { panic!("not generated") };
            self.texts.insert(kernel.name.clone(), text.clone());
            self.jobs.push(Job {
                name: kernel.name.clone(),
                together: group.row_axes > 0 || text.contains("__syncthreads"),
                grid: *grid,
                words: words.collect(),
            });
        }
    }

    /// Compiles and runs everything; the image is as the jobs left it. False where there is no emulator.
    pub fn run(&mut self, name: &str) -> bool {
        let Some(folder) = std::env::var_os("OXMLX_EMULATE").filter(|v| !v.is_empty()) else {
            println!("skipped: OXMLX_EMULATE names no folder");
            return false;
        };
        let folder = PathBuf::from(folder).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (path, text) in oxmlx_kernels::SOURCES {
            let to = folder.join(path);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(to, text).unwrap();
        }
        std::fs::write(folder.join("emulator.h"), include_str!("emulator.h")).unwrap();
        std::fs::write(folder.join("main.cpp"), include_str!("emulator.cpp")).unwrap();
        let parts = 4;
        let texts: Vec<_> = self.texts.iter().collect();
        let mut table = "#include \"emulator.h\"\nstruct Named { const char* name; void (*entry)(const unsigned long long*); };\n".to_string();
        let mut list = String::new();
        for (n, _) in &texts {
            table += &format!("extern \"C\" void {n}(const unsigned long long* __restrict__);\n");
            list += &format!("  {{\"{n}\", {n}}},\n");
        }
        std::fs::write(
            folder.join("table.cpp"),
            table + "Named all_kernels[] = {\n" + &list + "  {0, 0}};\n",
        )
        .unwrap();
        let mut compilers = Vec::new();
        for part in 0..parts {
            let mut unit = "#include \"emulator.h\"\n".to_string();
            let mut bodies = String::new();
            for (i, (_, text)) in texts.iter().enumerate().filter(|t| t.0 % parts == part) {
                let (includes, rest): (Vec<&str>, Vec<&str>) =
                    text.lines().partition(|l| l.starts_with("#include"));
                unit += &(includes.join("\n") + "\n");
                bodies += &format!("namespace n{i} {{\n{}\n}}\n", rest.join("\n"));
            }
            let file = folder.join(format!("part{part}.cpp"));
            std::fs::write(&file, unit + &bodies).unwrap();
            let mut c = Command::new("g++");
            c.current_dir(&folder).args([
                "-std=c++17",
                "-O1",
                "-ffp-contract=off",
                "-fno-strict-aliasing",
                "-w",
                "-I.",
                "-c",
            ]);
            c.arg(&file);
            compilers.push(c.spawn().unwrap());
            if compilers.len() % 2 == 0 {
                for mut c in compilers.drain(..) {
                    assert!(c.wait().unwrap().success());
                }
            }
        }
        let mut link = Command::new("g++");
        link.current_dir(&folder).args(["-std=c++17", "-O1", "-w", "-o", "run", "main.cpp", "table.cpp"]);
        link.args((0..parts).map(|p| format!("part{p}.o")));
        assert!(link.status().unwrap().success());
        let mut out: Vec<u8> = Vec::new();
        let word = |n: u64, out: &mut Vec<u8>| out.extend(n.to_le_bytes());
        word(self.jobs.len() as u64, &mut out);
        for j in &self.jobs {
            word(j.name.len() as u64, &mut out);
            out.extend(j.name.bytes());
            for n in [j.together as u64, j.grid.blocks[0] as u64, j.grid.threads as u64, j.words.len() as u64]
            {
                word(n, &mut out);
            }
            for &(address, n) in &j.words {
                word(address as u64, &mut out);
                word(n, &mut out);
            }
        }
        word(self.image.len() as u64, &mut out);
        out.extend(&self.image);
        std::fs::write(folder.join("jobs"), out).unwrap();
        let status =
            Command::new(folder.join("run")).current_dir(&folder).args(["jobs", "image"]).status().unwrap();
        assert!(status.success(), "{status}");
        self.image = std::fs::read(folder.join("image")).unwrap();
        true
    }
}
