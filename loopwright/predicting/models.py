"""The list of models; all other code uses them through the protocol Model."""

from collections.abc import Mapping, Sequence

from loopwright.errors import InputError, unknown
from loopwright.microarchs import Microarch
from loopwright.predicting.llvm_mca import CorrectedLlvmMca, LlvmMca
from loopwright.predicting.model import Answer, Block, Model
from loopwright.predicting.osaca import Osaca
from loopwright.predicting.pipeline import Pipeline
from loopwright.predicting.uica import Uica

# In the order in which models are shown everywhere.
MODELS: tuple[Model, ...] = (Pipeline(), LlvmMca(), CorrectedLlvmMca(), Osaca(), Uica())

# The default model, and the one that shows events inside a core.
SIMULATOR = Pipeline.id


def select(spec: str, parameters: Mapping[str, str] | None = None) -> list[Model]:
    """Resolve "ID[,ID]" or "all" to models, with these values of the simulator's parameters."""
    by_id = {m.id: m for m in MODELS}
    if parameters:
        by_id[SIMULATOR] = Pipeline(parameters)
    if spec == "all":
        return list(by_id.values())
    names = [name.strip() for name in spec.split(",") if name.strip()]
    for name in names:
        if name not in by_id:
            raise unknown("model", name, by_id)
    if not names:
        raise InputError("no model named; give --model ID[,ID] or all")
    return [by_id[name] for name in names]


def simulated(
    blocks: Sequence[Block], core: Microarch, parameters: Mapping[str, str] | None = None
) -> list[Answer]:
    """Return the simulator's answers without the limits of each block, which take much longer."""
    return Pipeline(parameters).predict(blocks, core, brief=True)
