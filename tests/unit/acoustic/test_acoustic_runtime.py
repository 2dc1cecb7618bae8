"""Runtimes: what auto takes, what is refused, and that graphs compute what torch computes."""

import logging
import sys

import pytest
import torch

from deployments.acoustic import runtime
from deployments.acoustic.checkpoint import load_sambert
from deployments.acoustic.fused import FusedDecoder, StepBuffers
from deployments.acoustic.runtime import choose_runtime
from deployments.acoustic.step_graph import StepGraph
from deployments.errors import ConfigurationInvalid


@pytest.fixture
def parts(bundled_folder):
    network = load_sambert(bundled_folder)
    return network, FusedDecoder(network.mel_decoder.mel_dec)


def test_auto_takes_onnxruntime_on_a_cpu(parts):
    assert choose_runtime(*parts, "auto", 1).name == "onnxruntime"


def test_torch_leaves_the_network_as_it_is(parts):
    before = list(parts[0].modules())
    assert choose_runtime(*parts, "torch", 1).name == "torch"
    assert list(parts[0].modules()) == before


@pytest.fixture
def no_onnxruntime(monkeypatch):
    for name in [name for name in sys.modules if name.endswith(("_graph", "onnxruntime")) or name == "onnxruntime"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)


def test_without_onnxruntime_auto_takes_torch_and_says_so(parts, no_onnxruntime, caplog):
    with caplog.at_level(logging.WARNING):
        assert choose_runtime(*parts, "auto", 1).name == "torch"
    assert "onnxruntime" in caplog.text


def test_without_onnxruntime_asking_for_it_is_an_error(parts, no_onnxruntime):
    with pytest.raises(ConfigurationInvalid, match=r"acoustic\.backend"):
        choose_runtime(*parts, "onnxruntime", 1)


@pytest.mark.parametrize("part", ["encoder", "predictor", "duration", "step", "post-net"])
def test_a_runtime_that_differs_is_refused_and_leaves_the_network_as_it_is(parts, monkeypatch, part):
    compare = runtime._compare

    def off(name, expected, found):
        compare(name, expected, found + 1e-3 if name == part else found)

    monkeypatch.setattr(runtime, "_compare", off)
    before = list(parts[0].modules())
    with pytest.raises(ConfigurationInvalid, match=f"its {part} differs"):
        choose_runtime(*parts, "onnxruntime", 1)
    assert list(parts[0].modules()) == before


@torch.inference_mode()
def test_scores_beyond_the_range_of_the_exponential_are_weighed_like_any_other(voices):
    """The graph's softmax takes no maximum off."""
    fused = voices["am_plain"].fused
    filled = []
    for bind in (fused.bind, StepGraph(fused, 1).bind):
        random = torch.Generator().manual_seed(0)
        buffers = StepBuffers(fused, 3, 4)
        for buffer, scale in ((buffers.before_BP, 1), (buffers.memory_BD, 1), (buffers.own, 3e3), (buffers.ahead, 3e3)):
            buffer.copy_(torch.randn(buffer.shape, generator=random) * scale)
        bind(buffers)()
        filled.append(buffers.out)
    assert filled[0].isfinite().all()
    torch.testing.assert_close(filled[1], filled[0], rtol=1e-4, atol=1e-4)
