"""Expressions on complex tensors, one source for two libraries: values and gradients are compared with PyTorch and with
finite differences (``tests/tensors/test_complex_tensors.py``).

``T`` is the library; the other names are the operands below.  Statements (``z[0] = 1.``) give the tensor that they
change.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_rng = np.random.default_rng(7)


def _complex(*shape: int) -> np.ndarray:
    return _rng.uniform(0.3, 1.5, shape) * np.exp(1j * _rng.uniform(-2.8, 2.8, shape))


LEAVES = {  # with gradients; what an expression sees is an intermediate copy
    "z": _complex(3, 4),
    "w": _complex(3, 4),
    "v": _complex(4),
    "s": _complex(3, 3),
    "b": _complex(2, 3, 4),
    "c": _complex(2, 4, 2),
    "o": _complex(),
    "x": _rng.uniform(0.3, 1.7, (3, 4)),
    "r": _rng.uniform(-1.7, 1.7, (3, 4, 2)),
}
CONSTANTS: dict[str, Any] = {
    "mask": LEAVES["x"] > 1,
    "idx": np.array([0, 2, 0]),
    "f32": _rng.uniform(0.3, 1.7, (3, 4)).astype(np.float32),
    "i": _rng.integers(1, 6, (3, 4)),
}

EXPRESSIONS = {
    "arithmetic": """
        z+w; z-w; z*w; z/w; z+2; 2-z; z*1.5; 1/z; z*(1-2j); (1+1j)-z; 1j/z; z*x; x*z; x/z; z/x; x*1j; z*o; x*o; i*z;
        z+f32; -z; z.neg(); T.add(z,w,alpha=2); T.sub(z,w,alpha=0.5); T.add(x,z,alpha=2); z.square(); z.reciprocal();
        T.addcmul(z,w,w); T.addcdiv(z,w,w,value=0.5); z.lerp(w,0.3); z+i; z/i; z*True; z/2; T.mul(z,v); z-v; z/v
    """,
    "powers": """
        z**2; z**3; z**-1; z**0.5; z**2.5; z**w; x**z; z**x; z**(1+1j); 2**z; 2.5**z; x**(0.5j); T.pow(z,0);
        T.float_power(z,2)
    """,
    "functions": """
        z.exp(); z.log(); z.sqrt(); z.sin(); z.cos(); z.tan(); z.sinh(); z.cosh(); z.tanh(); z.asin(); z.acos();
        z.atan(); z.asinh(); z.acosh(); (z/2).atanh(); z.log2(); z.log10(); z.log1p(); z.expm1(); z.exp2();
        z.rsqrt(); z.sigmoid(); T.sinc(z)
    """,
    "parts": """
        z.abs(); z.angle(); x.angle(); (-x).angle(); z.real; z.imag; T.real(z); T.imag(z); z.conj(); x.conj(); z.sgn();
        T.view_as_real(z); T.view_as_complex(r); T.complex(x,2*x); T.complex(x,x[0]); T.polar(x,2*x); z.mH; z.H;
        s.adjoint(); z.resolve_conj(); T.conj_physical(z); T.abs(z)**2; z.real*z.imag; T.view_as_real(z).sum(0);
        T.view_as_real(z*w); abs(z); x.real
    """,
    "reductions": """
        z.sum(); z.sum(0); z.sum(1,keepdim=True); z.mean(); z.mean(1); z.prod(); z.prod(0); z.cumsum(0); z.cumsum(1);
        z.cumprod(1); z.var(); z.var(0); z.std(); z.std(1,keepdim=True); T.var_mean(z)[0]; T.var_mean(z)[1]; z.norm();
        z.norm(1); z.norm(dim=0); z.norm(p=3,dim=0); T.linalg.norm(z); T.linalg.vector_norm(z,1); z.norm(float("inf"));
        x.sum(dtype=z.dtype); T.trapezoid(z)
    """,
    "products": """
        z@v; v@v; s@z; b@c; z.mm(w.t()); b.bmm(c); z.mv(v); v.dot(v); T.vdot(v,z[0]); T.outer(v,z[0]); T.inner(v,z[0]);
        T.einsum("ij,ij->i",z,w); T.einsum("ij,kj->ik",z,w); T.einsum("bij,bjk->bik",b,c); T.kron(s,s); s.trace();
        T.tensordot(z,w,2); T.linalg.vecdot(z,w); T.linalg.multi_dot([s,s,z]); s.matrix_power(3);
        T.cross(s,s.t(),dim=1); T.addmm(s,z,w.t()); T.addmm(s,z,w.t(),beta=0.5,alpha=1j); T.addmv(z[:,0],z,v);
        T.baddbmm(b[:,:,:2],b,c); z.cov(); T.diff(z); T.dist(z,w); z.conj()@v
    """,
    "shapes": """
        z.t(); z.reshape(4,3); z.view(12); z[0]; z[:,1:3]; z[idx]; z[mask]; z[1,2]; z[...,None]; T.stack([z,w]);
        T.cat([z,w],1); T.cat([z,x]); T.stack([x,z]); z.flip(0); z.roll(1); z.unbind(0)[1]; z.split(2,1)[0];
        z.expand(2,3,4); z.repeat(2,1); z.diagonal(); T.diag(v); z.tril(); z.clone(); z.contiguous(); z.permute(1,0);
        z.flatten(); z.gather(1,i[:,:2]%4); z.index_select(0,idx); z.unsqueeze(0); T.where(mask,z,w);
        T.where(mask,z,0.); T.where(mask,x,z); T.where(mask,z,1j); z.masked_fill(mask,0); z.masked_fill(mask,1j);
        z.nan_to_num(); T.meshgrid(v,v,indexing="ij")[0]; z.take_along_dim(i[:,:2]%4,1); z.masked_select(mask)
    """,
    "transforms": """
        T.fft.fft(z); T.fft.fft(x); T.fft.ifft(z,3,0); T.fft.ifft(x); T.fft.rfft(x); T.fft.rfft(x,3); T.fft.irfft(z);
        T.fft.irfft(z,5); T.fft.irfft(z,6,dim=0); T.fft.hfft(z); T.fft.ihfft(x); T.fft.fft2(z); T.fft.fft2(b,dim=(0,1));
        T.fft.ifft2(z); T.fft.rfft2(x); T.fft.irfft2(z); T.fft.irfft2(z,(3,6)); T.fft.fftn(b); T.fft.fftn(b,(2,5));
        T.fft.ifftn(b); T.fft.rfftn(x); T.fft.irfftn(b); T.fft.irfftn(b,(3,5)); T.fft.fft(z,norm="ortho");
        T.fft.rfft(x,norm="forward"); T.fft.irfft(z,norm="ortho"); T.fft.ifftn(b,norm="forward"); T.fft.fftshift(z);
        T.fft.ifftshift(z); T.fft.fftshift(z,0); T.fft.fftfreq(5); T.fft.rfftfreq(6,0.1); T.fft.fft(i);
        T.fft.fft(z).abs()**2; T.fft.irfft(T.fft.rfft(x)*T.fft.rfft(x[0])); z.logsumexp(0); z.logsumexp((0,1),True)
    """,
    "modules": """
        T.nn.functional.conv2d(b[None],c[None,:,:2]); T.nn.functional.linear(z,w); T.nn.functional.normalize(z,dim=0);
        T.nn.functional.pad(z,(1,2)); T.nn.functional.softsign(z); T.nn.functional.tanh(z); T.nn.functional.sigmoid(z);
        T.nn.functional.l1_loss(z,w); T.nn.functional.normalize(z,p=3.0,dim=1)
    """,
    "dtypes": """
        x.to(z.dtype); z.to(T.complex64); z.cdouble(); x.to(z.dtype)*z; z.to(z.dtype); x.type_as(z); z.cfloat()
    """,
    "in place": """
        z.add_(w); z.mul_(2); z.mul_(w); z.div_(w); z.sub_(x); z += 1j; z *= x; z[0] = 1.0; z[0] = 1j; z[0] = x[0];
        z[:,1] = w[:,0]; z[idx] = 0.5j; z[mask] = 2; z.zero_(); z.fill_(1j); z.exp_(); z.copy_(x); z.real[0] = 3.0;
        z.imag[0] *= 2; z.imag.mul_(2); z.real = x; z.imag = 2*x; z.sgn_(); z.square_(); z.sqrt_();
        z.masked_fill_(mask,1j); z.index_add_(0,idx,w); z.pow_(2); z.neg_(); z.t().mul_(2)
    """,
    "facts": """
        z == w; z != w; z == z; T.isreal(z); z.isnan(); z.isinf(); z.isfinite(); T.isclose(z,z+1e-12); z.is_complex();
        x.is_complex(); z.is_floating_point(); T.allclose(z,z); T.equal(z,w); z.count_nonzero(); z.any(); z.all();
        T.result_type(z,f32); z.is_signed(); z.bool(); z.logical_not(); T.logical_and(z,w); T.zeros_like(z);
        T.ones(2,dtype=z.dtype); T.full((2,),1j,dtype=z.dtype); z.new_zeros(2); T.eye(2,dtype=z.dtype);
        z.new_tensor([1j]); o.item(); T.isin(z,w)
    """,
}


def listed(group: str) -> list[str]:
    """The expressions of a group."""
    return [text.strip() for text in EXPRESSIONS[group].split(";")]


def evaluated(library: Any, text: str, arrays: dict[str, np.ndarray]) -> tuple[Any, dict[str, Any]]:
    """(the result of an expression in *library*, its leaves of these *arrays*)"""
    leaves = {name: library.tensor(array, requires_grad=True) for name, array in arrays.items()}
    space = {name: leaf * 1 for name, leaf in leaves.items()}
    space |= {name: library.tensor(array) for name, array in CONSTANTS.items()} | {"T": library}
    try:
        return eval(text, space), leaves
    except SyntaxError:
        exec(text, space)
        return space[text[0]], leaves


def arrays(single: bool) -> dict[str, np.ndarray]:
    """The contents of the leaves, in single precision or as they are."""
    if not single:
        return dict(LEAVES)
    return {name: a.astype(np.complex64 if a.dtype.kind == "c" else np.float32) for name, a in LEAVES.items()}


def weights(result: Any) -> np.ndarray:
    """A cotangent for *result*."""
    pairs = np.random.default_rng(0).normal(size=(*result.shape, 2))
    return pairs[..., 0] + 1j * pairs[..., 1] if result.is_complex() else pairs[..., 0]


def numbers(t: Any) -> Any:
    """The array of a tensor of either library; None for None."""
    return None if t is None else t.detach().resolve_conj().numpy()


def gradients(library: Any, result: Any, leaves: dict[str, Any]) -> dict[str, Any]:
    """The gradients of the leaves, by name, where *result* has any."""
    if not (isinstance(result, library.Tensor) and result.requires_grad):
        return {}
    result.backward(library.tensor(weights(result), dtype=result.dtype))
    return {name: numbers(leaf.grad) for name, leaf in leaves.items()}
