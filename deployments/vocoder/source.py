"""The excitation of NSF voices: harmonics of F0 plus noise, a pure function of the absolute sample index.

A window of an utterance gets exactly the excitation that the whole utterance has there: phases start from sums carried
in float64, and every random number is a hash of the request's key and the place it is used at.

Shapes: B batch, F frames, H harmonics, S samples.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

SINE_LEVEL = 0.1
NOISE_VOICED = 0.003
NOISE_UNVOICED = SINE_LEVEL / 3
BLOCK_FRAMES = 32
"""On a CPU the excitation is made in blocks: temporary tensors of one size leave fewer holes in the heap."""

GAMMA = 0x9E3779B97F4A7C15
PHASE_DOMAIN = 0xD1B54A32D192ED03  # keeps the draws of initial phases apart from those of noise


def signed(value: int) -> int:
    """The 64 bits of an unsigned integer as torch's int64 holds them."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _shift_right(bits: Tensor, count: int) -> Tensor:
    """A shift that fills with zeros; torch's own keeps the sign."""
    return (bits >> count) & ((1 << (64 - count)) - 1)


def mix(bits: Tensor) -> Tensor:
    """Scrambles 64 bits so that any change of the input flips each output bit half of the time.

    Args:
        bits: int64, any shape; products wrap around.

    Returns:
        int64 of the same shape.

    Source: Steele, Lea, Flood 2014, Fast splittable pseudorandom number generators, figure 16 (SplitMix64).
    """
    bits = (bits ^ _shift_right(bits, 30)) * signed(0xBF58476D1CE4E5B9)
    bits = (bits ^ _shift_right(bits, 27)) * signed(0x94D049BB133111EB)
    return bits ^ _shift_right(bits, 31)


def random_bits(key_B: Tensor, counter_BN: Tensor, domain: int = 0) -> Tensor:
    """64 random bits for each counter under each key.

    Args:
        key_B: int64, one key per item.
        counter_BN: int64, what to draw for: sample or harmonic indices.
        domain: Sets draws for different purposes apart.

    Returns:
        int64 [B, N].
    """
    stream_B1 = mix(key_B ^ signed(domain))[:, None]  # keys are often small integers in a row
    return mix(stream_B1 + (counter_BN + 1) * signed(GAMMA))


def uniform(bits: Tensor) -> Tensor:
    """Numbers in [0, 1), float32, from the upper 24 of 64 random bits."""
    return _shift_right(bits, 40).to(torch.float32) * 2.0**-24


def gaussian(bits: Tensor) -> Tensor:
    """Standard normal numbers, float32, from 64 random bits each.

    Source: Box and Muller 1958.
    """
    radius = torch.sqrt(-2.0 * torch.log((_shift_right(bits, 32) + 1).to(torch.float32) * 2.0**-32))
    angle = (bits & 0xFFFFFFFF).to(torch.float32) * (2.0 * math.pi * 2.0**-32)
    return radius * torch.cos(angle)


class HarmonicSource(nn.Module):
    """Sines at the multiples of F0 and noise, mixed into one excitation signal.

    Args:
        num_harmonics: Sines, the fundamental included.
        sample_rate_hz: Of the excitation.
        hop_samples: Samples per frame.

    Source: Wang et al. 2019, Neural source-filter waveform models, section II-B.
    """

    def __init__(self, num_harmonics: int, sample_rate_hz: int, hop_samples: int) -> None:
        super().__init__()
        self.num_harmonics = num_harmonics
        self.sample_rate_hz = sample_rate_hz
        self.hop_samples = hop_samples
        self.ffn = nn.Sequential(nn.Conv1d(num_harmonics, 1, 1), nn.Tanh())

    def cycles_per_sample(self, f0_BF: Tensor) -> Tensor:
        """How far the phase of each harmonic moves per sample.

        Args:
            f0_BF: Fundamental frequency in Hz, float32.

        Returns:
            float32 [B, F, H], in cycles; the order of operations decides the rounding and is the published one.
        """
        multiples_H = torch.arange(1, self.num_harmonics + 1, device=f0_BF.device, dtype=torch.float32)
        return (f0_BF[..., None] * multiples_H) / self.sample_rate_hz

    def phase_before(self, f0_BF: Tensor, carried_BH: Tensor | None = None) -> Tensor:
        """The phase sum before each frame, and after the last one.

        Args:
            f0_BF: In Hz, float32.
            carried_BH: Sum before the first frame, float64; None for the start of an utterance.

        Returns:
            float64 [B, F + 1, H] in cycles. The last entry is what the next piece carries on from. Sums of float32
            steps are exact in float64 for hours of speech, so pieces of any length give the same bits.
        """
        per_frame_BFH = self.cycles_per_sample(f0_BF).double() * self.hop_samples
        if carried_BH is None:
            carried_BH = per_frame_BFH.new_zeros(per_frame_BFH.shape[0], self.num_harmonics)
        return torch.cat([carried_BH[:, None], carried_BH[:, None] + per_frame_BFH.cumsum(dim=1)], dim=1)

    def forward(
        self,
        f0_BF: Tensor,
        voiced_BF: Tensor,
        phase_before_BFH: Tensor,
        first_sample_B: Tensor,
        key_B: Tensor | None,
    ) -> Tensor:
        """The excitation of a window.

        Args:
            f0_BF: In Hz, float32; runs on through unvoiced frames.
            voiced_BF: 1 or 0, float32.
            phase_before_BFH: Entries of `phase_before` for these frames, float64, cycles.
            first_sample_B: Absolute index of each item's first sample in its utterance, int64.
            key_B: Key of each item's draws, int64; None sets all draws to 0 (for comparisons).

        Returns:
            excitation_B1S, float32, S = F x hop.
        """
        frames = f0_BF.shape[1]
        block = BLOCK_FRAMES if f0_BF.device.type == "cpu" else frames
        blocks = [
            self._block(
                f0_BF[:, start : start + block],
                voiced_BF[:, start : start + block],
                phase_before_BFH[:, start : start + block],
                first_sample_B + start * self.hop_samples,
                key_B,
            )
            for start in range(0, frames, block)
        ]
        return torch.cat(blocks, dim=2)

    def _block(
        self,
        f0_BF: Tensor,
        voiced_BF: Tensor,
        phase_before_BFH: Tensor,
        first_sample_B: Tensor,
        key_B: Tensor | None,
    ) -> Tensor:
        """Some frames of `forward`."""
        batch, frames = f0_BF.shape
        hop = self.hop_samples
        sample_of_hop = torch.arange(1, hop + 1, device=f0_BF.device, dtype=torch.float64)
        moved = self.cycles_per_sample(f0_BF).double()[:, :, None] * sample_of_hop[None, None, :, None]
        # Rounding the running sum to float32 before taking its fraction is what the checkpoints were trained with.
        cycles = (phase_before_BFH[:, :, None] + moved).to(torch.float32).remainder(1.0)
        angle_BHS = (cycles.reshape(batch, frames * hop, -1) * (2.0 * math.pi)).transpose(1, 2)
        if key_B is not None:
            angle_BHS = angle_BHS + self._initial_phase(key_B)[:, :, None]
        voiced_B1S = voiced_BF.repeat_interleave(hop, dim=1)[:, None]
        mixed_B1S = self.ffn[0](SINE_LEVEL * torch.sin(angle_BHS) * voiced_B1S)
        if key_B is not None:
            noise_BS = self._mixed_noise(key_B, first_sample_B, frames * hop)
            level_B1S = voiced_B1S * NOISE_VOICED + (1.0 - voiced_B1S) * NOISE_UNVOICED
            mixed_B1S = mixed_B1S + noise_BS[:, None] * level_B1S
        return torch.tanh(mixed_B1S)

    def _initial_phase(self, key_B: Tensor) -> Tensor:
        """Uniform in [-pi, pi) per harmonic, 0 for the fundamental; [B, H]."""
        harmonics_BH = torch.arange(self.num_harmonics, device=key_B.device).expand(len(key_B), -1)
        phase_BH = (uniform(random_bits(key_B, harmonics_BH, PHASE_DOMAIN)) * 2.0 - 1.0) * math.pi
        return phase_BH * (harmonics_BH > 0)

    def _mixed_noise(self, key_B: Tensor, first_sample_B: Tensor, num_samples: int) -> Tensor:
        """Noise after the linear mix, for level 1; [B, S].

        Independent noise of one level per harmonic, weighted and summed, is Gaussian with the length of the weight
        vector as its deviation; drawing that sum itself costs an eighth.
        """
        samples_BS = first_sample_B[:, None] + torch.arange(num_samples, device=key_B.device)
        weights_H: Tensor = self.ffn[0].get_parameter("weight")
        deviation: Tensor = torch.linalg.vector_norm(weights_H)
        return gaussian(random_bits(key_B, samples_BS)) * deviation
