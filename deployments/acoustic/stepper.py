"""Work in progress of the acoustic stage: what is admitted is encoded, decoded step by step, refined, handed over.

Between two decoder steps only a bounded amount of other work is done, so that utterances in the decoder never wait long
for others that arrive or finish.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import chain
from time import perf_counter

import numpy as np
import torch

from deployments.acoustic.decoder import StepDecoder
from deployments.acoustic.sambert import Encoded
from deployments.acoustic.voice import AcousticVoice
from deployments.acoustic.work import AcousticTicket, Work
from deployments.batching import Synchronous
from deployments.counts import RunCounts
from deployments.errors import SpeechError, SynthesisFailed, VoiceNotFound
from deployments.settings import AcousticSettings

log = logging.getLogger(__name__)
MAX_PADDING = 0.1
"""Share of padding in what is encoded or refined together."""
FREE_PADDING = 16
"""Tokens or frames of padding that cost less than a run of their own."""


class AcousticStepper(Synchronous):
    """The model with its work, for one thread; see batching.Stepper.

    Args:
        voices: Networks by name, shared.
        settings: Bounds of frames and of the work between two steps.
        counts: Of the parts encoder, decoder and postnet; see new_counts.
    """

    def __init__(
        self,
        voices: Mapping[str, AcousticVoice],
        settings: AcousticSettings,
        counts: Mapping[str, RunCounts] | None = None,
    ) -> None:
        self._voices = voices
        self._settings = settings
        self._counts = new_counts() if counts is None else counts
        self._arrived: list[Work] = []
        self._decoders = {name: StepDecoder(voice.fused, voice.runtime.bind_step) for name, voice in voices.items()}
        self._speaking: dict[str, list[Work]] = {name: [] for name in voices}
        self._turns = list(voices)

    @property
    def in_progress(self) -> Sequence[AcousticTicket]:
        """Tickets admitted and not yet settled."""
        stages = (self._arrived, *self._speaking.values())
        return [work.ticket for stage in stages for work in tuple(stage)]

    def admit(self, tickets: list[AcousticTicket]) -> None:
        """Reads the symbols of new tickets; a ticket with a fault in it fails alone."""
        for ticket in tickets:
            voice = self._voices.get(ticket.item.voice)
            if voice is None:
                known = ", ".join(self._voices)
                ticket.fail(VoiceNotFound(f"No voice {ticket.item.voice!r}; use one of: {known}.", "voice"))
                continue
            try:
                self._arrived.append(Work(ticket, voice.parse(ticket.item), voice, self._settings))
            except SpeechError as error:
                ticket.fail(error)

    @torch.inference_mode()
    def step(self) -> None:
        """Encodes a few arrivals, makes one decoder step of one voice, refines some of what is decoded."""
        self._drop_unwanted()
        self._encode()
        self._decode()
        self._refine()

    def _drop_unwanted(self) -> None:
        self._arrived = [work for work in self._arrived if work.ticket.wanted()]
        for name, works in self._speaking.items():
            wanted = [work for work in works if work.ticket.wanted()]
            if len(wanted) == len(works):
                continue
            kept = set(map(id, wanted))
            for work in works:
                if id(work) not in kept and work.utterance is not None:
                    self._decoders[name].leave(work.utterance)
            self._speaking[name] = wanted

    def _encode(self) -> None:
        """The first arrival and others of its voice and about its length, within the bound; the rest in later steps."""
        if not self._arrived:
            return
        voice = self._arrived[0].voice
        waiting = [(work, work.num_tokens) for work in self._arrived if work.voice is voice]
        works = _take(waiting, self._settings.max_admission_cost)
        taken = set(map(id, works))
        self._arrived = [work for work in self._arrived if id(work) not in taken]
        memories, bands, joining = self._remember(works)
        for work, utterance in zip(joining, self._decoders[voice.name].join(memories, bands), strict=True):
            work.begin(utterance)
        self._speaking[voice.name] += joining

    def _remember(self, works: list[Work]) -> tuple[list[torch.Tensor], list[int], list[Work]]:
        """Memories and band widths of the works that can be decoded; the others are failed, each for its own fault."""
        voice, started_s = works[0].voice, perf_counter()
        try:
            encoded = voice.encode([work.ticket.item for work in works], [work.ids for work in works])
            sound = self._keep_sound(works, encoded)
            repeats_BT = encoded.repeats_BT.masked_fill(~sound[:, None].to(encoded.repeats_BT.device), 0)
            memories = voice.network.unroll(encoded._replace(repeats_BT=repeats_BT))
        except Exception as error:
            if len(works) == 1:
                _fail(works[0], error)
                return [], [], []
            log.exception("acoustic: encoding %d requests together failed, trying each alone", len(works))
            memories_alone, bands_alone, joining = zip(*(self._remember([work]) for work in works), strict=True)
            return [*chain(*memories_alone)], [*chain(*bands_alone)], [*chain(*joining)]
        self._count("encoder", [work.num_tokens for work in works], started_s)
        for work, frames_T in zip(works, repeats_BT.cpu().numpy(), strict=True):
            work.frames_T = frames_T[: work.num_tokens].astype(np.int32)
        kept = [index for index, is_sound in enumerate(sound.tolist()) if is_sound]
        bands = encoded.band_B.tolist()
        return [memories[index] for index in kept], [bands[index] for index in kept], [works[index] for index in kept]

    def _keep_sound(self, works: list[Work], encoded: Encoded) -> torch.Tensor:
        """Fails the works that cannot be decoded; bool [B], True for the others."""
        num_frames = encoded.repeats_BT.sum(1).tolist()
        finite = encoded.log_duration_BT.isfinite().all(1) & encoded.text_BTP.isfinite().flatten(1).all(1)
        sound = []
        for work, frames, is_finite in zip(works, num_frames, finite.tolist(), strict=True):
            limit = self._settings.max_frames
            if not is_finite:
                work.ticket.fail(SynthesisFailed("The acoustic model predicted no number; use another text or voice."))
            elif frames > limit:
                work.ticket.fail(
                    SynthesisFailed(
                        f"The segment would take {frames} frames, more than acoustic.max_frames={limit}; "
                        "shorten it, raise its speed, or raise the setting."
                    )
                )
            sound.append(bool(is_finite) and frames <= limit)
        return torch.tensor(sound)

    def _decode(self) -> None:
        """One step of the voice whose turn it is; voices without work give theirs up."""
        for name in self._turns:
            if self._decoders[name].num_active:
                self._turns.remove(name)
                self._turns.append(name)
                num_rows, started_s = self._decoders[name].num_active, perf_counter()
                self._decoders[name].step()
                self._count("decoder", [1] * num_rows, started_s)
                return

    def _refine(self) -> None:
        """The post-net on the works of one voice that can have their next piece, within the bound."""
        for name, works in self._speaking.items():
            decoded = [(work, self._num_decoded(work)) for work in works]
            due = {id(work) for work, num_decoded in decoded if work.is_due(num_decoded)}
            if not due:
                continue
            pending = [(work, work.num_pending(num_decoded)) for work, num_decoded in decoded]
            # Works halfway to their next piece come along, to go together from then on: many cost little more than one.
            half = self._settings.chunk_frames // 2
            pending = [(work, length) for work, length in pending if id(work) in due or length >= half]
            pending.sort(key=lambda sized: id(sized[0]) not in due)
            self._advance(name, _take(pending, self._settings.max_postnet_cost))
            return

    def _num_decoded(self, work: Work) -> int:
        assert work.utterance is not None
        return self._decoders[work.voice.name].num_made(work.utterance) * work.voice.network.frames_per_step

    def _advance(self, name: str, works: list[Work]) -> None:
        """Refines what is decoded of some works of a voice and hands it to them."""
        started_s = perf_counter()
        self._decoders[name].hand_over()
        states, new = [], []
        for work in works:
            assert work.utterance is not None
            assert work.postnet is not None
            states.append(work.postnet)
            new.append(work.utterance.take()[: work.postnet.num_frames - work.postnet.num_fed])
        for work, mel_FM in zip(works, self._voices[name].postnet.advance(states, new), strict=True):
            if len(mel_FM):
                work.add(mel_FM.cpu().numpy())
        self._count("postnet", [len(frames_FM) for frames_FM in new], started_s)
        self._speaking[name] = [work for work in self._speaking[name] if not work.is_finished]

    def _count(self, part: str, lengths: Sequence[int], started_s: float) -> None:
        """Counts a run on items of these lengths, padded to the longest."""
        self._counts[part].add(len(lengths), len(lengths) * max(lengths), sum(lengths), started_s)


def new_counts() -> dict[str, RunCounts]:
    """Counts of a model that has not run yet: encoder in tokens, decoder in steps, postnet in frames."""
    return {part: RunCounts() for part in ("encoder", "decoder", "postnet")}


def _take(sized: Sequence[tuple[Work, int]], bound: int) -> list[Work]:
    """The first work and those of about its length whose padded cost (number times longest) fits, little of it padding.

    Args:
        sized: Works and their lengths, at least one.
        bound: Padded cost at most, should there be more than one.
    """
    (first, longest), *others = sized
    taken, total = [first], longest
    for work, length in sorted(others, key=lambda other: abs(other[1] - sized[0][1])):
        cost = max(longest, length) * (len(taken) + 1)
        if cost <= bound and cost - total - length <= max(MAX_PADDING * cost, FREE_PADDING):
            taken.append(work)
            longest, total = max(longest, length), total + length
    return taken


def _fail(work: Work, error: Exception) -> None:
    log.error("acoustic: a request failed", exc_info=error)
    fault = error if isinstance(error, SpeechError) else SynthesisFailed(f"The acoustic model failed: {error!r}.")
    work.ticket.fail(fault)
