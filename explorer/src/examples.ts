/** Loops to begin with. Their sources are linked where somebody else measured them. */

export interface Example {
  name: string;
  text: string;
  at: number;
  focus: string;
}

export const EXAMPLES: Example[] = [
  {
    name: "16 bytes across a line",
    // The loop is ours; github.com/oxcaml/oxcaml/pull/6682 reports 2 cycles in place of 1 on Zen 4.
    text: `# 16 bytes: 2 cycles across a line on Zen 4, else 1.
# See github.com/oxcaml/oxcaml/pull/6682
   0:  48 01 d0               add    %rdx,%rax
   3:  48 83 c2 01            add    $0x1,%rdx
   7:  48 81 fa 00 10 00 00   cmp    $0x1000,%rdx
   e:  75 f0                  jne    0
`,
    at: 56,
    focus: "zen4",
  },
  {
    name: "copy, 8 bytes",
    text: `   0:  48 8b 06       mov    (%rsi),%rax
   3:  48 89 07       mov    %rax,(%rdi)
   6:  48 83 c6 08    add    $0x8,%rsi
   a:  48 83 c7 08    add    $0x8,%rdi
   e:  48 ff c9       dec    %rcx
  11:  75 ed          jne    0
`,
    at: 60,
    focus: "zen2",
  },
  {
    name: "clear, by immediates",
    text: `   0:  48 c7 07 00 00 00 00   movq   $0x0,(%rdi)
   7:  48 83 c7 08            add    $0x8,%rdi
   b:  48 ff c9               dec    %rcx
   e:  75 f0                  jne    0
`,
    at: 52,
    focus: "zen2",
  },
  {
    name: "dot product, AVX2",
    text: `   0:  c4 c1 7c 10 04 04      vmovups (%r12,%rax,1),%ymm0
   6:  c4 c2 7d b8 4c 05 00   vfmadd231ps 0x0(%r13,%rax,1),%ymm0,%ymm1
   d:  48 83 c0 20            add    $0x20,%rax
  11:  48 39 d0               cmp    %rdx,%rax
  14:  72 ea                  jb     0
`,
    at: 0,
    focus: "skylake",
  },
  {
    name: "AArch64 copy",
    text: `   0:  f8408425   ldr   x5, [x1], #8
   4:  f8008405   str   x5, [x0], #8
   8:  f1000442   subs  x2, x2, #0x1
   c:  54ffffa1   b.ne  0
`,
    at: 0,
    focus: "neoverse-n1",
  },
];
