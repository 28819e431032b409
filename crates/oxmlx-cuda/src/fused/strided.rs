//! The strided form of groups without rows: operands' places are found from the domain's index.

use super::functors::stored;
use super::pointwise::{Access, Form, THREADS, arrays, call, full_outputs, pointers};
use super::program::Program;
use std::fmt::Write;

pub(super) fn code(p: &Program, form: &Form, t: &mut String) {
    let (v, u, rank) = (form.vector, form.times, form.rank);
    t.push_str(&pointers(p, form));
    let index = if form.long { "uint64" } else { "uint32" };
    let axes = 1 + p.inputs.len() + p.outputs.len();
    let is_walked =
        |i: &usize| matches!(form.inputs[*i].0, Access::Unit(_) | Access::Constant | Access::Apart);
    let walked: Vec<usize> = (0..p.inputs.len()).filter(is_walked).collect();
    // The words of an operand's strides.
    let stride = |i: usize| axes + 2 * rank + rank * walked.iter().position(|&w| w == i).unwrap_or(0);
    // A product of 32-bit numbers is one instruction.
    let factor =
        |word: String| if form.long { format!("(int64){word}") } else { format!("(int64)(int32){word}") };
    let number = |n: &str| if form.long { format!("(int64){n}") } else { format!("(int64)(int32){n}") };
    let _ =
        writeln!(t, "  const uint64 first = (uint64)blockIdx.x * {} + threadIdx.x * {v};", THREADS * v * u);
    arrays(p, form, v * u, "  ", t);
    let _ = write!(
        t,
        "#pragma unroll\n  for (int u = 0; u < {u}; ++u) {{\n    const uint64 at = first + u * {};\n    \
         if (at < n) {{\n      {index} rest = ({index})at;\n",
        THREADS * v
    );
    for &i in &walked {
        let _ = writeln!(t, "      int64 o{i} = 0;");
    }
    if rank > 1 {
        let _ = write!(
            t,
            "#pragma unroll {}\n      for (int a = {}; a > 0; --a) {{\n        \
             const {index} q = divide_by<{index}>(rest, r + {axes} + 2 * a);\n        \
             const {index} m = rest - q * ({index})r[{axes} + 2 * a];\n        rest = q;\n",
            if rank <= 8 { rank } else { 1 },
            rank - 1
        );
        for &i in &walked {
            let _ =
                writeln!(t, "        o{i} += {} * {};", number("m"), factor(format!("r[{} + a]", stride(i))));
        }
        t.push_str("      }\n");
    }
    for &i in &walked {
        let _ = writeln!(t, "      o{i} += {} * {};", number("rest"), factor(format!("r[{}]", stride(i))));
    }
    for i in 0..p.inputs.len() {
        let (how, loose) = form.inputs[i];
        let one = if loose { "read_loose" } else { "read_one" };
        let _ = match how {
            Access::One => Ok(()),
            Access::Linear(_) if loose => writeln!(
                t,
                "      for (int e = 0; e < {v}; ++e) a{i}[u * {v} + e] = read_loose(p{i} + at + e);"
            ),
            Access::Linear(w) => writeln!(t, "      read<{v}, {w}>(a{i} + u * {v}, p{i} + at);"),
            Access::Unit(w) => writeln!(t, "      read<{v}, {w}>(a{i} + u * {v}, p{i} + o{i});"),
            Access::Constant => writeln!(
                t,
                "      {{\n        const {} c = {one}(p{i} + o{i});\n#pragma unroll\n        \
                 for (int e = 0; e < {v}; ++e) a{i}[u * {v} + e] = c;\n      }}",
                stored(p.regs[i].dtype)
            ),
            Access::Apart => writeln!(
                t,
                "#pragma unroll\n      for (int e = 0; e < {v}; ++e) a{i}[u * {v} + e] = \
                 {one}(p{i} + o{i} + e * (int64)r[{}]);",
                stride(i) + rank - 1
            ),
        };
    }
    let _ = write!(
        t,
        "    }}\n  }}\n#pragma unroll\n  for (int u = 0; u < {u}; ++u) {{\n    const uint64 at = first + u * {};\n    \
         if (at < n) {{\n#pragma unroll\n      for (int e = 0; e < {v}; ++e) {{\n        {}\n      }}\n",
        THREADS * v,
        call(p, form, &format!("u * {v} + e"))
    );
    for (k, _) in full_outputs(p) {
        let _ = writeln!(t, "      write<{v}, {}>(q{k} + at, b{k} + u * {v});", form.outputs[k]);
    }
    t.push_str("    }\n  }\n");
}
