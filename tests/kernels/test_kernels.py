"""The kernels of this repository: what they say of themselves, and the code they assemble to."""

import subprocess
from pathlib import Path

import pytest
from checkout import SHARED

from loopwright import kernels, paths, toolchain
from loopwright.code import assemble
from loopwright.code.instructions import Flow
from loopwright.errors import InputError
from loopwright.kernels import Variant

VARIANTS = [variant for kernel in kernels.every() for variant in kernel.variants.values()]
# Kind of the main loop, and the bytes that one iteration of it loads and stores. A call that
# stands in the loop pushes its return address: two of them are the 16 bytes of put_user_twice.
MAIN_LOOPS = {
    "x86_64/copy_user": {
        "unrolled64": ("branch", 64, 64),
        "movsq": ("string", 8, 8),
        "movsq_aligned": ("string", 8, 8),
        "movsb": ("string", 1, 1),
        "negative_index": ("branch", 16, 16),
        "loop32": ("branch", 32, 32),
        "overlapped": ("string", 8, 8),
    },
    "x86_64/clear_user": {
        "unrolled64": ("branch", 0, 64),
        "plain": ("branch", 0, 8),
        "aligned16": ("branch", 0, 8),
        "immediates": ("branch", 0, 8),
        "negative_index": ("branch", 0, 8),
        "negative_index_fused": ("branch", 0, 8),
        "rep_stosq": ("string", 0, 8),
    },
    "x86_64/csum": {
        "two_chains_40": ("branch", 80, 0),
        "adc1": ("branch", 8, 0),
        "adc2": ("branch", 16, 0),
        "adc4": ("branch", 32, 0),
        "adcx_adox": ("branch", 64, 0),
    },
    "x86_64/put_event": {
        "put_user_twice": ("branch", 12, 16),
        "write_begin": ("branch", 12, 12),
        "masked": ("branch", 12, 12),
        "masked_outside": ("branch", 12, 12),
    },
    "x86_64/memset": {
        "words64": ("branch", 0, 64),
        "overlapped32": ("branch", 0, 32),
        "rep_stosq": ("string", 0, 8),
    },
    "x86_64/memmove": {
        "movsq680": ("branch", 32, 32),
        "loop32": ("branch", 32, 32),
        "kept_end": ("branch", 16, 16),
    },
    "x86_64/memcmp": {
        "words_then_bytes": ("branch", 16, 0),
        "swapped_word": ("branch", 16, 0),
        "overlapped_word": ("branch", 16, 0),
    },
    "x86_64/memchr": {
        "bytes": ("branch", 1, 0),
        "aligned_words": ("branch", 8, 0),
        "aligned_pairs": ("branch", 16, 0),
    },
    "arm64/memcmp": {
        "aligned_pairs": ("branch", 32, 0),
        "double_pairs": ("branch", 64, 0),
        "words": ("branch", 16, 0),
    },
    "arm64/strlen": {
        "pairs": ("branch", 16, 0),
        "aligned_pairs": ("branch", 16, 0),
        "aligned_words": ("branch", 8, 0),
    },
    "arm64/copy_user": {
        f"{direction}_user_{kind}": ("branch", 64, 64)
        for direction in ("to", "from")
        for kind in ("pairs", "batched", "nopan")
    },
}


def named(kernel: str, name: str) -> Variant:
    return kernels.load(kernel).variants[name]


def unit(variant: Variant) -> str:
    return kernels.load(variant.kernel).routines[variant.routine].contract.unit


def mnemonics(variant: Variant) -> list[str]:
    loop = assemble.main_loop(variant, assemble.variant_code(variant))
    return [ins.mnemonic for ins in loop.instructions]


def test_every_family_is_there() -> None:
    assert set(MAIN_LOOPS) <= set(kernels.ids())


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.id)
def test_variant_assembles_and_its_exceptions_stay_in_its_code(variant: Variant) -> None:
    code = assemble.variant_code(variant)
    starts = {ins.address for ins in code.instructions}
    calls = any(ins.flow is Flow.CALL for ins in code.instructions)
    assert code.size == sum(len(ins.code) for ins in code.instructions)
    for entry in code.exceptions:
        if not calls:
            assert {entry.insn, entry.fixup} <= starts
        assert 0 <= entry.insn < len(code.text)
        assert 0 <= entry.fixup < len(code.text)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.id)
def test_main_loop_moves_what_it_should(variant: Variant) -> None:
    if unit(variant) == "call":
        with pytest.raises(InputError, match="no loop"):
            assemble.main_loop(variant, assemble.variant_code(variant))
        return
    loop = assemble.main_loop(variant, assemble.variant_code(variant))
    moved = (loop.kind, loop.read_bytes, loop.written_bytes)
    expected = MAIN_LOOPS.get(variant.kernel, {}).get(variant.name)
    assert expected, f"{variant.id} is not in MAIN_LOOPS of this file: is {moved} right for it?"
    assert moved == expected


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.id)
def test_alternatives_are_in_the_source(variant: Variant) -> None:
    """A feature that is misspelt would be left out without a word."""
    without = assemble.variant_code(variant, frozenset(variant.alternatives))
    for feature in variant.alternatives:
        headers = (paths.HARNESS / "include").rglob("*.h")
        assert any(f"LW_TAKE_{feature}\n" in header.read_text() for header in headers)
    if variant.alternatives:
        assert assemble.variant_code(variant).sha256 != without.sha256


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.id)
def test_user_code_lies_where_the_kernel_code_lies(variant: Variant) -> None:
    ours, theirs = assemble.user_code(variant), assemble.variant_code(variant)
    assert ours.entry == theirs.entry
    assert ours.exceptions == theirs.exceptions
    assert not {"stac", "clac"} & {ins.mnemonic for ins in ours.instructions}


def test_erms_alternative_replaces_the_jump_in_place() -> None:
    taken = assemble.variant_code(named("x86_64/copy_user", "movsb"))
    left = assemble.variant_code(named("x86_64/copy_user", "movsq_aligned"))
    changed = [n for n in range(left.size) if left.text[n] != taken.text[n]]
    assert taken.size == left.size
    assert changed
    assert taken.text[changed[0] : changed[-1] + 1] == bytes.fromhex("f3a4")


def test_immediates_straddle_a_line_and_aligned16_lies_in_one_fetch_window() -> None:
    straddling = named("x86_64/clear_user", "immediates")
    loop = assemble.main_loop(straddling, assemble.variant_code(straddling))
    assert len(loop.code) == 15
    assert loop.start // 64 != (loop.end - 1) // 64
    aligned = named("x86_64/clear_user", "aligned16")
    loop = assemble.main_loop(aligned, assemble.variant_code(aligned))
    assert loop.start % 16 == 0
    assert len(loop.code) <= 16


def test_fused_index_keeps_its_add_beside_the_branch() -> None:
    assert mnemonics(named("x86_64/clear_user", "negative_index"))[-2:] == ["movq", "jne"]
    assert mnemonics(named("x86_64/clear_user", "negative_index_fused"))[-2:] == ["addq", "jne"]


def test_masked_loop_masks_and_opens_access_once() -> None:
    inside = mnemonics(named("x86_64/put_event", "masked"))
    assert [inside.count(m) for m in ("stac", "clac", "cmovaq", "lfence")] == [1, 1, 1, 0]
    outside = mnemonics(named("x86_64/put_event", "masked_outside"))
    assert [outside.count(m) for m in ("stac", "clac", "cmovaq", "lfence")] == [1, 1, 0, 0]
    barrier = mnemonics(named("x86_64/put_event", "write_begin"))
    assert [barrier.count(m) for m in ("stac", "clac", "cmovaq", "lfence")] == [1, 1, 0, 1]


def test_pan_decides_which_loop_is_the_main_one() -> None:
    nopan = mnemonics(named("arm64/copy_user", "to_user_nopan"))
    assert nopan.count("stp") == 4
    assert "sttr" not in nopan
    assert mnemonics(named("arm64/copy_user", "to_user_batched")).count("sttr") == 8


def test_a_core_with_pan_runs_the_other_loop_of_the_same_source() -> None:
    kernel, variant = kernels.load("arm64/copy_user"), named("arm64/copy_user", "to_user_nopan")
    code = assemble.source_code(
        kernel.isa, kernel.folder, variant.source, "__arch_copy_to_user", ("ARM64_HAS_PAN",)
    )
    loop = assemble.main_loop(variant, code)
    assert [ins.mnemonic for ins in loop.instructions].count("sttr") == 8


def test_unknown_names_come_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"nearest: .*x86_64/copy_user"):
        kernels.load("x86_64/copy_usr")
    with pytest.raises(InputError, match=r"nearest: .*movsq_aligned"):
        kernels.select("x86_64/copy_user/movsq_alined")


def test_every_thread_has_a_kernel() -> None:
    seeds = {file.stem for file in (SHARED / "seeds").glob("*.txt")}
    if not seeds:
        pytest.skip(f"no threads in {SHARED / 'seeds'}")
    assert {thread for kernel in kernels.every() for thread in kernel.threads} == seeds


@pytest.mark.parametrize(
    "source", sorted(paths.kernels_root().glob("*/*/*.c")), ids=lambda path: path.name
)
def test_c_variants_compile_without_a_warning(source: Path, tmp_path: Path) -> None:
    isa = source.parent.parent.name
    command = [
        toolchain.find(isa).gcc,
        *assemble.flags(isa, source.parent),
        "-Wall",
        "-Werror",
        "-Wno-address-of-packed-member",
        "-c",
        str(source),
        "-o",
        str(tmp_path / "v.o"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
