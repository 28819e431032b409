//! The four codes of row kernels: what a thread does with its row, from the first phase to the last.

use super::functors::{computed, stored};
use super::program::widened;
use super::row_text::{Writer, first_read, kept, known, store_phase, used};
use super::rows::CHUNK;
use oxmlx_core::plan::{Extent, Reg};
use std::fmt::Write;

impl Writer<'_> {
    pub fn kept(&mut self, chunks: usize) {
        let p = self.p;
        let n = chunks * CHUNK;
        let threads =
            if self.form.lanes > 0 { self.form.lanes.to_string() } else { "(int32)blockDim.x".into() };
        let held: Vec<Reg> = kept(p).map(|s| s.dst).collect();
        for i in (0..p.inputs.len()).filter(|&i| self.form.inputs[i].0.is_full()) {
            self.line(format!("  {} a{i}[{n}];", stored(p.regs[i].dtype)));
        }
        for &h in &held {
            self.line(format!("  {} v{h}[{n}];", computed(p.dtype(h))));
        }
        let column = format!(
            "    const int32 c = (k * {threads} + (int32)t) * {CHUNK}, left = len - c;\n    (void)left;\n"
        );
        let chunk_loop = format!("#pragma unroll\n  for (int32 k = 0; k < {chunks}; ++k) {{\n{column}");
        for phase in 0..p.phases {
            let rows = p.lines(Extent::Row, phase);
            self.t.push_str(&rows);
            let loads: Vec<usize> = (0..p.inputs.len())
                .filter(|&i| self.is_loaded(i as Reg) && first_read(p, i) == Some(phase))
                .collect();
            if !loads.is_empty() {
                self.t.push_str(&chunk_loop);
                for i in loads {
                    let read = self.read(i, &format!("a{i} + {CHUNK} * k"), "    ");
                    self.t.push_str(&read);
                }
                self.line("  }");
            }
            let stores: Vec<usize> = self
                .full_outputs()
                .into_iter()
                .filter(|&k| store_phase(p, p.outputs[k].reg) == phase)
                .collect();
            let steps = p.steps.iter().any(|s| s.extent == Extent::Full && s.phase == phase);
            if !steps && stores.is_empty() {
                continue;
            }
            self.accumulators(phase);
            self.t.push_str(&chunk_loop);
            let arrays = self.chunk_arrays(phase, &stores);
            self.t.push_str(&arrays);
            let _ = write!(
                self.t,
                "#pragma unroll\n    for (int32 e = 0; e < {CHUNK}; ++e) {{\n      const int32 j = {CHUNK} * k + e;\n      (void)j;\n"
            );
            let mut reads = used(p, phase);
            reads.extend(stores.iter().map(|&k| p.outputs[k].reg));
            reads.sort_unstable();
            reads.dedup();
            for r in reads {
                let d = p.dtype(r);
                if self.is_loaded(r) {
                    self.line(format!(
                        "      const {} x{r} = {};",
                        computed(d),
                        widened(d, &format!("a{r}[j]"))
                    ));
                } else if held.contains(&r) && known(p, r) < phase {
                    self.line(format!("      const {} x{r} = v{r}[j];", computed(d)));
                }
            }
            let lines = p.lines(Extent::Full, phase);
            self.t.push_str(&lines.replace("\n  ", "\n      ").replacen("  ", "      ", 1));
            for s in p.steps.iter().filter(|s| s.phase == phase && held.contains(&s.dst)) {
                let _ = writeln!(self.t, "      v{0}[j] = x{0};", s.dst);
            }
            let take = self.take(phase, &stores);
            self.t.push_str(&take);
            self.line("    }");
            let end = self.chunk_end(phase, &stores);
            self.t.push_str(&end);
            self.line("  }");
            self.combine(phase, &(phase & 1).to_string(), "  ");
            self.results(phase, |d| format!("z{d}"));
        }
    }

    /// The loop over the chunks of a row, or of a segment that ends before `end`.
    fn chunks(&mut self, phase: usize, stores: &[usize], from: &str) {
        let p = self.p;
        let mut targets: Vec<Reg> = p.folds(phase).map(|(s, _)| s.srcs[0]).collect();
        targets.extend(stores.iter().map(|&k| p.outputs[k].reg));
        let steps = p.needed(&targets);
        let mut reads: Vec<Reg> = targets;
        reads.extend(steps.iter().flat_map(|s| s.srcs.iter().copied()));
        reads.retain(|&r| self.is_loaded(r));
        reads.sort_unstable();
        reads.dedup();
        let threads = self.form.threads;
        // Loads of several chunks are under way at once, but none passes a store.
        let unroll = match (p.weight, stores.is_empty()) {
            (..=32, true) => 4,
            (..=100, true) | (..=32, false) => 2,
            _ => 1,
        };
        let left = if self.form.whole {
            format!("constexpr int32 left = {CHUNK}")
        } else {
            "const int64 left = end - c".into()
        };
        let _ = write!(
            self.t,
            "#pragma unroll {unroll}\n  for (int64 c = {from} + (int64)t * {CHUNK}; c < end; \
             c += {threads} * {CHUNK}) {{\n    {left};\n    (void)left;\n"
        );
        for &r in &reads {
            self.line(format!("    {} a{r}[{CHUNK}];", stored(p.dtype(r))));
            let read = self.read(r as usize, &format!("a{r}"), "    ");
            self.t.push_str(&read);
        }
        let arrays = self.chunk_arrays(phase, stores);
        self.t.push_str(&arrays);
        let _ = writeln!(self.t, "#pragma unroll\n    for (int32 e = 0; e < {CHUNK}; ++e) {{");
        for &r in &reads {
            let d = p.dtype(r);
            self.line(format!("      const {} x{r} = {};", computed(d), widened(d, &format!("a{r}[e]"))));
        }
        for s in steps {
            self.line(format!("      {}", s.line));
        }
        let take = self.take(phase, stores);
        self.t.push_str(&take);
        self.line("    }");
        let end = self.chunk_end(phase, stores);
        self.t.push_str(&end);
        self.line("  }");
    }

    pub fn walk(&mut self, many: bool) {
        let p = self.p;
        let stores = self.full_outputs();
        let last = stores.iter().map(|&k| known(p, p.outputs[k].reg));
        let last =
            last.chain(p.steps.iter().filter(|s| s.fold.is_some()).map(|s| s.phase)).max().unwrap_or(0);
        let mut number = 0;
        for phase in 0..p.phases {
            let rows = p.lines(Extent::Row, phase);
            self.t.push_str(&rows);
            let stores: &[usize] = if phase == last { &stores } else { &[] };
            let folds = p.folds(phase).count();
            if folds == 0 && stores.is_empty() {
                continue;
            }
            if !many {
                self.accumulators(phase);
                self.line("  {\n  const int64 end = len;");
                self.chunks(phase, stores, "0");
                self.line("  }");
                self.combine(phase, &(phase & 1).to_string(), "  ");
                self.results(phase, |d| format!("z{d}"));
                continue;
            }
            self.line("  for (uint64 part = 0; part < r[2]; ++part) {");
            self.segment(phase, stores, number);
            self.line("  }\n  __syncthreads();");
            let total = self.total();
            let first = number;
            let order: Vec<Reg> = p.folds(phase).map(|(s, _)| s.dst).collect();
            self.results(phase, |d| {
                let n = first + order.iter().position(|&o| o == d).unwrap_or(0);
                format!("row::segments<Fold{d}>(pointer<uint64>(r[4]) + (row * {total} + {n}) * r[2], (uint32)r[2])")
            });
            number += folds;
        }
    }

    fn total(&self) -> usize {
        self.p.steps.iter().filter(|s| s.fold.is_some()).count()
    }

    /// One segment, `part`: the results of its reductions go to scratch memory, from number `first` on.
    fn segment(&mut self, phase: usize, stores: &[usize], first: usize) {
        self.accumulators(phase);
        self.line(
            "  const int64 begin = (int64)(part * r[3]);\n  const int64 end = begin + (int64)r[3] < len ? begin + (int64)r[3] : len;",
        );
        self.chunks(phase, stores, "begin");
        self.combine(phase, "part & 1", "  ");
        let (total, all) = (self.total(), self.p.folds(phase).map(|(s, _)| s.dst).collect::<Vec<_>>());
        for (n, d) in all.into_iter().enumerate() {
            self.line(format!(
                "  if (t == 0) *pointer<Fold{d}::C>(r[4] + ((row * {total} + {}) * r[2] + part) * 8) = z{d};",
                first + n
            ));
        }
    }

    pub fn split(&mut self) {
        let rows = self.p.lines(Extent::Row, 0);
        self.t.push_str(&rows);
        let stores = self.full_outputs();
        self.segment(0, &stores, 0);
    }

    pub fn finish(&mut self) {
        let total = self.total();
        for phase in 0..self.p.phases {
            let rows = self.p.lines(Extent::Row, phase);
            self.t.push_str(&rows);
            if phase == 0 {
                let order: Vec<Reg> = self.p.folds(0).map(|(s, _)| s.dst).collect();
                self.results(0, |d| {
                    let n = order.iter().position(|&o| o == d).unwrap_or(0);
                    format!(
                        "row::segments<Fold{d}>(pointer<uint64>(r[4]) + (row * {total} + {n}) * r[2], (uint32)r[2])"
                    )
                });
            }
        }
    }
}
