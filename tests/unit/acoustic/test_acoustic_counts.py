"""What the engine counts is what it was given."""

import pytest

from deployments.acoustic.engine import AcousticEngine
from deployments.messages import AcousticRequest
from deployments.settings import AcousticSettings

HEAD = "{n_c$tone2$s_begin$word_begin$emotion_neutral$F7} {i_c$tone3$s_end$word_end$emotion_neutral$F7}"
TAIL = "{#4$tone_none$s_none$word_none$emotion_none$F7}"


@pytest.fixture
def engine(bundled_folder):
    engine = AcousticEngine([bundled_folder], AcousticSettings(), "cpu")
    yield engine
    engine.close()
    assert engine.join(60)


def test_tokens_steps_and_frames_are_counted(engine):
    frames_per_step = 3
    texts = [f"{HEAD} {TAIL}", " ".join([HEAD] * 8) + f" {TAIL}"]
    requests = [AcousticRequest(voice="demo", symbols=symbols) for symbols in texts]
    mels = [ticket.future.result(60) for ticket in engine.submit(requests)]
    counts = engine.counts
    num_frames = [len(mel.mel_FM) for mel in mels]
    num_steps = [-(-frames // frames_per_step) for frames in num_frames]
    encoder, decoder, postnet = counts["encoder"], counts["decoder"], counts["postnet"]
    assert (encoder.runs, encoder.items, encoder.positions, encoder.kept) == (1, 2, 2 * 17, 3 + 17)
    # Both begin together: the longer one has steps of its own.
    assert (decoder.runs, decoder.items, decoder.kept) == (max(num_steps), sum(num_steps), sum(num_steps))
    assert postnet.kept == sum(num_frames)
    assert postnet.positions >= postnet.kept
    assert all(part.seconds > 0 for part in counts.values())


def test_mixed_lengths_waste_little_on_padding(engine):
    lengths = [5, 50, 12, 33, 8, 41, 20, 47, 16, 28, 37, 6, 24, 44, 10, 31]
    symbols = [" ".join([HEAD] * length) + f" {TAIL}" for length in lengths]
    tickets = engine.submit([AcousticRequest(voice="demo", symbols=text, speed=4.0) for text in symbols])
    for ticket in tickets:
        ticket.future.result(60)
    for name, part in engine.counts.items():
        assert 1 - part.kept / part.positions < 0.1, name
    assert engine.counts["encoder"].runs < len(lengths) / 2


def test_counts_are_a_copy(engine):
    before = engine.counts
    (ticket,) = engine.submit([AcousticRequest(voice="demo", symbols=f"{HEAD} {TAIL}")])
    ticket.future.result(60)
    assert before["decoder"].runs == 0
    assert engine.counts["decoder"].runs > 0
