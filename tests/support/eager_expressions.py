"""Expressions on tensors, one source for two libraries: what they give is compared with PyTorch and with finite
differences (``test_eager_ops.py``).

``T`` is the library, ``F`` its ``nn.functional``; the other names are the operands below.  Statements (``x[0] = 1.``)
give the tensor that they change.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_rng = np.random.default_rng(0)

LEAVES = {  # float64, with gradients; what an expression sees is an intermediate copy
    "x": _rng.uniform(0.3, 1.7, (3, 4)),
    "y": _rng.uniform(0.3, 1.7, 4),
    "z": _rng.uniform(0.3, 1.7, (3, 4)),
    "v": _rng.uniform(0.3, 1.7, (2, 3, 4)),
    "w": _rng.uniform(0.3, 1.7, (2, 4, 5)),
    "s": _rng.uniform(0.3, 1.7, (3, 3)),
    "a": _rng.uniform(0.3, 1.7, ()),
    "u": _rng.uniform(-0.9, 0.9, (3, 4)),
}
CONSTANTS = {
    "idx": np.array([0, 2]),
    "mask": LEAVES["x"] > 1,
    "i": _rng.integers(-5, 6, (3, 4)),
    "f32": _rng.uniform(0.3, 1.7, (3, 4)).astype(np.float32),
    "b": _rng.uniform(size=(3, 4)) > 0.5,
    "e": np.zeros((0, 3)),
    "n": np.array([[1.0, np.nan, 3.0], [np.inf, -np.inf, 2.0]]),
    "i32": np.arange(6, dtype=np.int32).reshape(2, 3),
    "u8": np.arange(4, dtype=np.uint8),
    "g": _rng.integers(0, 3, (3, 4)),
    "ties": np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 1.0]]),
}

EXPRESSIONS = {
    "names of nodes": """
        x.sum(); x.sum(0); x.mean(); x.mean(0); x.max(); x.max(0)[0]; x.min(); x.min(0)[0]; x.amax(); x.amax(0);
        x.prod(); x.prod(0); x.std(); x.std(0); x.var(); x.var(0); x.norm(); x.norm(1); x.norm(dim=0);
        x.norm(p=3,dim=0); T.linalg.norm(x); T.linalg.vector_norm(x); x.logsumexp(0); x.softmax(0);
        x.log_softmax(0); x.cumsum(0); x.cumprod(0); x.median(); x.median(0)[0]; x.sort()[0]; x.topk(2)[0];
        x.kthvalue(1)[0]; x.nansum(); x.nanmean(); T.std_mean(x)[0]; T.std_mean(x)[1]; T.var_mean(x)[0];
        x.exp(); x.log(); x.log2(); x.log10(); x.log1p(); x.expm1(); x.sqrt(); x.rsqrt(); x.abs(); x.sin();
        x.cos(); x.tan(); x.asin(); x.acos(); x.atan(); x.sinh(); x.cosh(); x.tanh(); T.atan2(x,z); x.sigmoid();
        x.relu(); x.erf(); x.erfc(); x.reciprocal(); x.square(); x.sign(); x.floor(); x.ceil(); x.round();
        x.round(decimals=1); x.trunc(); x.frac(); x.clamp(0,1); x.clamp(min=0); x.clamp(max=0); x.clamp(z);
        x.clamp_min(0); x.clamp_max(0.); x.clamp_min(z); T.maximum(x,z); T.fmax(x,z); T.minimum(x,z);
        T.where(mask,x,z); T.where(mask,x,0.); x.masked_fill(mask,0.); x.masked_fill(mask,T.tensor(0.));
        x.lerp(z,0.5); x.lerp(z,z); T.hypot(x,z); x.nan_to_num(); T.logaddexp(x,z); T.xlogy(x,z); x.asinh();
        (x+2).acosh(); (x/9).atanh(); x.exp2(); x.lgamma(); x.digamma(); (x/2).logit(); x.erfinv(); T.sinc(x);
        T.deg2rad(x); T.rad2deg(x); T.positive(x); T.copysign(x,z); T.fmod(x,2); T.fmod(x,z); T.remainder(x,2);
        T.logaddexp2(x,z); T.float_power(x,2); x**2; x**z; F.softplus(x); F.gelu(x);
        F.gelu(x,approximate="tanh"); F.silu(x); F.elu(x); F.leaky_relu(x); F.hardtanh(x); F.logsigmoid(x);
        T.addcmul(x,z,z); T.addcdiv(x,z,z); x.view(4,3); x.reshape(4,3); x.t().reshape(4,3); x.t().reshape(12);
        x[:,:2].reshape(3,2,1); x[:,:2].reshape(3,1,2); x.t().view(4,3,1); x.flatten(); v.flatten(1); x.ravel();
        x.unflatten(1,(2,2)); x.squeeze(); x.squeeze(0); v[:1].squeeze(0); v[:1].squeeze((0,1)); x.unsqueeze(0);
        x.transpose(0,1); x.swapaxes(0,1); x.t(); y.t(); x.T; v.mT; v.permute(2,0,1); v.movedim(0,1);
        y.expand(3,4); y.expand_as(x); y.broadcast_to(3,4); x.narrow(0,0,1); x.select(0,1); x.chunk(2)[0];
        x.split(1)[0]; x.split([1,2])[0]; x.unbind()[0]; x.diagonal(); x.diag(); y.diag(); x.view_as(z);
        x.unfold(1,2,1); x.contiguous(); x.t().contiguous(); x.clone(); x.to(T.float64); x.double();
        T.cat([x,z]); T.stack([x,z]); T.hstack([x,z]); T.vstack([x,z]); x.repeat(2,1); x.repeat_interleave(2);
        x.repeat_interleave(2,dim=0); x.repeat_interleave(T.tensor([1,2,1]),dim=0); x.tile(2); x.flip(0);
        x.roll(1); x.roll(1,0); x.tril(); x.triu(); T.broadcast_tensors(y,x)[0]; T.atleast_3d(x); x.rot90();
        T.diag_embed(y); x.fliplr(); T.tensor_split(x,2)[0]; x.view(12).view(3,4); x[0]; x[0:2]; x[:]; x[...];
        x[None]; x[:,None]; x[0,1]; x[0,1:]; x[1:,0]; x[:,0]; x[idx]; x[:,idx]; x[mask]; x[0,idx]; x[...,0];
        x[0:3]; x[::2]; x[T.tensor(1)]; x[True]; x[idx,None]; x.index_select(0,idx);
        x.gather(0,T.zeros(1,4,dtype=T.int64)); x.scatter(0,T.zeros(1,4,dtype=T.int64),1.);
        x.index_add(0,idx,z[:2]); x.index_copy(0,idx,z[:2]); x.index_fill(0,idx,1.); x.masked_select(mask);
        x.take(idx); T.take_along_dim(x,T.zeros(1,4,dtype=T.int64),0); x.index_put((idx,),z[0]); x@y; x@z.t();
        y@x.t(); y@y; v@w; v@w[0]; T.mm(x,z.t()); T.mv(x,y); T.bmm(v,w); T.dot(y,y); T.inner(x,z); T.inner(y,y);
        T.outer(y,y); T.vdot(y,y); T.addmm(s,x,z.t()); T.baddbmm(T.zeros(2,3,5),v,w); T.addmv(x[:,0],x,y);
        T.einsum("ij,kj->ik",x,z); T.einsum("ij,ij->",x,z); T.tensordot(x,z,([1],[1])); T.kron(x,z);
        T.linalg.cross(s,s); T.cross(s,s,dim=1); T.trace(s); s.trace(); T.linalg.matrix_power(s,3);
        T.linalg.vecdot(x,z); s.addr(s[0],s[0]); y@w
    """,
    "reductions": """
        x.sum(axis=0); x.sum(axis=1,keepdims=True); x.sum((0,1)); x.sum(dim=[0],keepdim=True); x.sum(-1);
        x.sum(dim=()); a.sum(); a.sum(0); a.sum(-1); a.mean(0); x.sum(dtype=T.float32); i.sum(); i32.sum();
        u8.sum(); b.sum(); b.sum(0); i.mean(dtype=T.float64); e.sum(); e.mean(); e.sum(0); e.sum(1); e.mean(0);
        e.prod(); e.prod(1); e.max(1); e.std(); f32.sum(); f32.mean(); f32.std(0); x.mean((0,1));
        x.mean(dim=1,keepdim=True); x.prod(0,keepdim=True); i.prod(); x.prod(1,dtype=T.float32); v.sum((0,2));
        v.mean((0,2),keepdim=True); x.max(1); x.max(1,True); x.max(dim=0,keepdim=True); x.max(axis=1); x.max(z);
        T.max(x,z); T.max(x,1); x.min(1); T.min(x,z); i.max(); i.max(1); b.max(); b.max(0); a.max(); n.max();
        n.max(1); n.min(1); n.argmax(); n.argmin(1); x.amax((0,1)); x.amax(dim=(1,),keepdim=True); x.amin(0);
        i.amax(0); x.argmax(); x.argmax(0); x.argmax(1,keepdim=True); a.argmax(); a.argmax(0); x.argmin(dim=-1);
        x.std(1); x.std(1,True); x.std(1,False); x.std(False); x.std(unbiased=False);
        x.std(dim=1,unbiased=True,keepdim=True); x.std(correction=0); x.std(dim=0,correction=2); x.var((0,1));
        x.var(0,keepdim=True); y[:1].var(); T.std_mean(x,1); T.var_mean(x,dim=0,correction=0); T.std_mean(x);
        T.var_mean(x,unbiased=False); x.norm(2); x.norm(3); x.norm(float("inf")); x.norm(float("-inf"));
        x.norm(0); x.norm("fro"); x.norm(2,0,True); x.norm(p=1,dim=(0,1)); x.norm(p="fro",dim=(0,1));
        x.norm(0.5); f32.norm(); a.norm(); u.norm(3,1); (x*0).norm(); (x*0).norm(1); (x*0).norm(3);
        (x*0).norm(dim=1); T.linalg.norm(x,"fro"); T.linalg.norm(y,3); T.linalg.norm(x,dim=0);
        T.linalg.norm(v,"fro",dim=(1,2)); T.linalg.vector_norm(x,3,dim=(0,1));
        T.linalg.norm(x,1,dim=(0,1),keepdim=True); b.all(); b.any(); b.all(0); b.any(1,keepdim=True); x.any();
        x.all(dim=0); i.any(); i.all(); T.any(b); e.all(); e.any(); x.count_nonzero(); i.count_nonzero(0);
        b.all(dim=(0,1)); a.any(); x.cumsum(-1); i.cumsum(0); b.cumsum(1); x.cumprod(1);
        x.cumsum(dim=1,dtype=T.float32); (x*T.tensor([0.,1,1,1])).cumprod(1); (x*T.tensor([0.,1,1,1])).prod(1);
        (x*T.tensor([0.,0,1,1])).prod(); x.logsumexp((0,1)); x.logsumexp(1,True); i.logsumexp(0);
        n.logsumexp(1); a.logsumexp(0); x.softmax(-1); a.softmax(0); a.log_softmax(0);
        i.softmax(0,dtype=T.float32); x.log_softmax(1); x.softmax(1,T.float32); n.softmax(1);
        (x*1000).softmax(1); (x*1000).log_softmax(1); x.median(0); x.median(1,True); n.median(); n.median(1);
        i.median(); i.median(dim=0); a.median(); y.median(); y.median(0); T.median(x,1); x.sort(); x.sort(0);
        x.sort(0,True); x.sort(descending=True); i.sort()[0]; i.sort(descending=True)[0]; n.sort();
        n.sort(descending=True); b.sort()[0]; x.argsort(); x.argsort(0,True); x.topk(2); x.topk(2,0);
        x.topk(2,1,False); x.topk(1,largest=False,sorted=True); x.kthvalue(2); x.kthvalue(2,0,True);
        T.sort(x,dim=0); n.nansum(); n.nansum(1); n.nanmean(); n.nanmean(1,True); T.sort(y,descending=True);
        str(x.max(1).values)
    """,
    "kinks": """
        ties.max(1); ties.max(); ties.argmax(1); (ties*1).clamp(1,2); (ties+u[:2,:3]*0).clamp(2,3);
        (ties+u[:2,:3]*0).clamp(min=2); (ties+u[:2,:3]*0-2).relu(); T.maximum(ties+u[:2,:3]*0,ties);
        (ties+u[:2,:3]*0).max(); (ties+u[:2,:3]*0).amax(1); (ties+u[:2,:3]*0).max(1)[0];
        (ties+u[:2,:3]*0-2).abs(); (ties+u[:2,:3]*0).min(1).values; (ties+u[:2,:3]*0).median(1)[0];
        (ties+u[:2,:3]*0).sort(1)[0]; (ties+u[:2,:3]*0).norm(float("inf")); (ties+u[:2,:3]*0).topk(1)[0]
    """,
    "elements": """
        i.exp(); b.exp(); i32.sqrt(); u8.log1p(); f32.exp(); i.abs(); i.sign(); i.floor(); i.round(); b.sign();
        i.square(); i.reciprocal(); i.relu(); u.relu(); (u*0).relu(); u.abs(); (u*0).abs(); u.sign(); u.floor();
        u.ceil(); u.trunc(); u.frac(); (x*10).round(); u.round(decimals=1); i.sigmoid(); n.exp(); n.relu();
        n.sign(); n.abs(); n.clamp(0,1); n.nan_to_num(); n.nan_to_num(1.,2.,3.); n.sigmoid(); n.tanh();
        T.relu(u); n.isnan(); n.isinf(); n.isfinite(); i.isnan(); i.isfinite(); u.square(); x.logit(0.1);
        i.rsqrt(); u.expm1(); u.erfinv(); u.sinc(); u.asinh(); u.atanh(); T.log2(i.abs()+1); T.atan2(u,x);
        T.atan2(i,i); T.hypot(u,x); T.maximum(x,x); T.maximum(i,i32[0,0]); T.maximum(f32,x); T.fmax(n,n*0+1);
        T.fmin(n,n*0+1); T.copysign(x,u); T.fmod(u,0.3); T.fmod(i,2); T.remainder(u,0.3); T.remainder(i,2);
        T.remainder(i,-3); T.fmod(u,x); T.floor_divide(i,2); i//2; i%3; u%0.3; T.float_power(i.abs(),2);
        T.heaviside(u.detach(),x.detach()); x.clamp(0.6,1.4); x.clamp(min=0.8); x.clamp(max=0.8);
        x.clip(0.6,1.4); i.clamp(0,2); i.clamp(0.5,2); i.clamp(min=T.tensor(1)); x.clamp(y,z); x.clamp(min=y);
        x.clamp(max=z); x.clamp(x,z); x.clamp(1.4,0.6); x.clamp_min(1.0); x.clamp_max(1.0); f32.clamp(0.5,1);
        f32.clamp(x.detach(),None); T.clamp(x,0.5,1.0); i.clamp(min=0); u8.clamp(1,2); b.clamp(0,1);
        T.where(mask,x,0); T.where(mask,0.5,x); T.where(mask,1.0,0.0); T.where(mask,1,0); T.where(mask,i,0.5);
        T.where(mask,f32,0.5); T.where(mask,f32,x); T.where(mask); T.where(mask,x,y); T.where(mask[0],x,a);
        x.where(mask,z); x.where(mask,0.); T.where(u8.bool(),T.tensor(1.),2); T.where(mask,i,1);
        T.where(mask,True,False); T.where(mask, x, T.tensor(1)); x.masked_fill(mask,1.); x.masked_fill(mask,a);
        x.masked_fill(mask,T.tensor(2)); i.masked_fill(mask,2); i.masked_fill(mask,1.5);
        x.masked_fill(mask[0],2); x.masked_fill(mask,float("-inf")); x.lerp(z,0.3); x.lerp(z,0.8); x.lerp(z,u);
        T.addcmul(x,z,y,value=0.5); T.addcdiv(x,z,y,value=2); T.addcmul(i,i,i,value=2); x.addcmul(z,y);
        x.lerp(z,2); T.isclose(x,x+1e-9); T.allclose(x,x); T.allclose(x,z); T.equal(x,x); T.equal(x,z);
        T.equal(x,y); T.isclose(n,n,equal_nan=True); T.logit(x/2); n.nan_to_num(nan=1.0); T.deg2rad(i);
        T.sinc(i); x.neg(); x.negative(); x.absolute(); x.arctan(); T.arctan2(x,z); x.fix(); x.positive(); x+z;
        x-1; i/2; i/i32[0,1]; b+b; b*2; i**2; 2**i.abs(); x**0.5; x**-1; x**i; i**2.0; f32**2; f32*2.5; f32+i;
        f32*a; i+a; i*2.5; b|b; b&b; b^b; ~b; ~i; i&3; i|1; x==z; x<1; i>=0; i==i; x!=None; x/0; i//0.5; abs(u);
        +x; T.add(x,z,alpha=2); T.sub(x,z,alpha=0.5); T.mul(x,2); T.div(i,2,rounding_mode="trunc");
        T.div(i,2,rounding_mode="floor"); T.true_divide(i,2); x.add(1); T.logical_and(i,b); T.logical_not(i);
        T.logical_not(b); T.bitwise_not(i); T.neg(x); divmod(1,2); T.eq(x,x); x.ge(1); x.ne(z)
    """,
    "shapes": """
        x.view(2,6); x.view((2,-1)); x.view(-1); x.view(3,4,1); e.view(-1); e.reshape(3,0); e.view(0,7);
        a.view(1); a.reshape(()); a.view(1,1); x.reshape(x.shape); x.reshape([4,3]); x.reshape_as(T.zeros(4,3));
        v.flatten(0,1); a.flatten(); y.flatten(); x.unflatten(-1,(2,-1)); x.t().reshape(2,6);
        x.t()[:2].reshape(-1); x[:1].squeeze(); x[:1].squeeze(0); x[:1].squeeze(1); x[:1].squeeze((0,1));
        x[:1].squeeze(-2); a.squeeze(); a.squeeze(0); x.unsqueeze(-1); x.unsqueeze(1); a.unsqueeze(0);
        x.transpose(-1,0); a.transpose(0,0); v.transpose(1,2); a.t(); v.permute((2,0,1)); v.permute(-1,0,1);
        v.movedim(0,-1); v.movedim((0,1),(1,2)); T.movedim(v,1,0); v.swapaxes(0,2); T.moveaxis(v,0,1);
        T.swapdims(v,0,1); y.expand(3,-1); x.expand(2,3,4); a.expand(3); a.expand(());
        y.unsqueeze(1).expand(4,7); y.expand([3,4]); T.broadcast_to(y,(3,4)); T.broadcast_tensors(y,x,a);
        e.expand(2,0,3); x.narrow(0,1,2); x.narrow(1,-2,2); x.select(1,-1); x.chunk(2); x.chunk(2,1);
        x.chunk(3,1); x.chunk(7); x.split(2); x.split(2,1); x.split([1,3],1); x.unbind(); x.unbind(1);
        T.tensor_split(x,2); T.tensor_split(x,(1,2),dim=1); x.diagonal(1); x.diagonal(-1); v.diagonal(0,1,2);
        v.diagonal(1,0,2); v.diagonal(dim1=0,dim2=1,offset=-1); x.diagonal(9); x.diag(1); y.diag(-1);
        T.diag_embed(x); T.diag_embed(x,1); T.diag_embed(y,-1,1,0); T.diag_embed(x,0,0,2); x.unfold(0,2,1);
        x.unfold(1,3,2); v.unfold(1,2,1); T.cat([x,z],1); T.cat((x,z),dim=-1); T.cat([x,f32]); T.cat([x,i]);
        T.cat([x]); T.cat([T.tensor([]),x]); T.stack([x,z],1); T.stack([x,z],-1); T.stack([a,a]);
        T.stack([x,i]); T.hstack([y,y]); T.hstack([a,a]); T.vstack([x,y]); T.dstack([x,z]);
        T.column_stack([y,y]); T.concat([x,z]); T.concatenate([x,z]); T.atleast_1d(a); T.atleast_2d(y);
        T.atleast_1d(a,x); T.row_stack([x,y]); x.repeat(2,1,2); x.repeat((1,2)); a.repeat(3); x.tile((2,1));
        x.tile(2,1,1); x.repeat_interleave(2,1); x.repeat_interleave(T.tensor([1,2,0]),0);
        T.repeat_interleave(x,3,dim=0); x.flip((0,1)); x.flip(0,1); x.flip([-1]); x.flipud();
        x.roll((1,2),(0,1)); x.roll(-1,1); x.rot90(2,(0,1)); x.tril(-1); x.triu(1); v.tril();
        x.tril(diagonal=1); x.is_contiguous(); x.t().is_contiguous(); x.stride(); x.t().stride();
        x.t().stride(0); a.stride(); x[:,::2].stride(); v.permute(2,0,1).stride(); x.numel(); a.numel();
        x.size(); x.size(1); x.size(-1); x.dim(); x.ndimension(); x.nelement(); x.shape; x.element_size();
        x.is_floating_point(); i.is_floating_point(); x.type(); i.type(); f32.type(); x.float(); x.int();
        x.long(); x.bool(); x.to(T.float32); x.to("cpu"); x.to("cpu",T.float32); x.to(f32);
        x.to(dtype=T.float32); x.type(T.float32); x.type_as(f32); x.type("torch.FloatTensor"); x.cpu();
        x.detach(); x.tolist(); a.tolist(); i.tolist(); a.item(); x.detach().numpy().sum(); i.float();
        b.float(); b.int(); i.bool(); x.new_zeros(2,3); x.new_ones((2,)).sum(); x.new_full((2,),3.);
        f32.new_tensor([1,2]); i.new_zeros(2); x.new_empty(2).shape; x.is_same_size(z); x.is_complex();
        x.is_signed(); u8.is_signed(); T.numel(x); T.is_tensor(x); x.short(); x.to(T.int64);
        x.detach().requires_grad; len(x); list(y.detach())[1]; [r.sum() for r in x]; x.T.T; bool(a>0); float(a);
        int(a*3); T.clone(x); T.flatten(x); T.squeeze(x[:1]); T.reshape(x,(2,6)); T.transpose(x,0,1); T.t(x);
        T.permute(v,(1,0,2)); T.unsqueeze(x,0); T.flip(x,[0]); T.roll(x,1); T.chunk(x,2); T.split(x,2);
        T.unbind(x); T.narrow(x,0,0,1); T.select(x,0,0); T.diagonal(x); T.ravel(x); T.swapaxes(x,0,1);
        T.tile(x,(2,)); T.detach(x).requires_grad
    """,
    "indices": """
        x[-1]; x[None,...,None]; x[0,...]; x[0,...,1]; x[...,...]; x[1:1]; x[5:]; x[-2:]; x[:,1:3]; x[1:,::2];
        v[0,:,1]; v[:,0]; v[...,1:,0]; a[None]; a[...]; a[()]; x[()]; x[np.int64(1)]; x[np.array(1)]; y[2];
        y[1:3]; y[y.argmax()]; x[idx,idx]; x[idx,:]; x[idx,1]; x[1,idx]; x[idx,1:3]; x[...,idx]; x[None,idx];
        v[idx[:1],:,idx[:1]]; v[0,:,idx]; v[:,idx,idx]; v[:,idx]; v[idx[:1]]; v[0,idx]; v[idx[:1],0,:];
        v[idx[:1],:,0]; x[[0,2]]; x[[0,2],[1,3]]; x[[True,False,True]]; x[mask[0:3,0]]; x[:,mask[0]]; x[x>1];
        v[:,mask]; v[mask[:2,:3]]; x[mask,None]; x[T.tensor([[0,1],[2,0]])]; x[T.tensor([-1,-3])];
        x[T.tensor(1),T.tensor(2)]; x[T.tensor(1),idx]; x[np.array([0,1])]; x[np.array([True,False,True])];
        x[False]; x[None,True]; x[T.tensor([],dtype=T.int64)]; x[[]]; x[idx.int()]; x[range(2)]; x[(0,1)];
        x[[0,1]]; x[[[0,1],[1,2]]]; x[slice(0,2)]; x[idx][0]; x[0][idx]; x[idx[0]]; x[:,idx[1]]; y[idx];
        y[T.tensor([[0,0],[1,3]])]; x[T.tensor(True)]; x[1:,idx]; x[:2,[0,1]]; v[1:,idx,:2]; v[1,idx,:2];
        v[:,:,idx]; v[...,idx,0]; v[...,0,idx]; v[idx[:1],...,idx[:1]]; v[None,idx[:1],:,idx[:1]];
        x.index_select(1,idx); x.index_select(1,T.tensor(1)); x.gather(1,g); x.gather(0,g);
        x.gather(1,g[:2,:2]); x.gather(0,g[:,:1]); T.gather(x,1,T.tensor([[0,0],[1,1],[2,3]]));
        x.take(T.tensor([[0,11],[-1,3]])); T.take_along_dim(x,g,1); T.take_along_dim(x,g[:1],0);
        T.take_along_dim(x,x.argsort(1),1); T.take_along_dim(x,g[:,:1],1); T.take_along_dim(x,idx);
        x.masked_select(mask[0]); T.masked_select(x,x>1); a.masked_select(T.tensor(True)); x.nonzero();
        mask.nonzero(); mask.nonzero(as_tuple=True); T.nonzero(i); T.argwhere(mask); a.nonzero();
        g.flatten().bincount(); g.flatten().bincount(minlength=5); x.scatter(0,g[:,:2],2.);
        x.scatter(1,g[:,:1],1.); x.scatter(1,T.tensor([[0,1,2,3]]*3),z); x.scatter_add(0,g,z);
        x.scatter_add(1,g,z); x.index_add(0,T.tensor([0,0]),z[:2],alpha=2); x.index_add(1,idx,z[:,:2]);
        x.index_copy(1,idx,z[:,2:]); x.index_fill(0,idx,3.); x.index_put((idx,idx),T.tensor(1.));
        x.index_put((mask,),T.tensor(1.)); x.index_put((T.tensor([0,0]),),z[:2],accumulate=True); x[0]=1.;
        x[0]=z[0]; x[0]=y; x[:,1]=0; x[1:,2:]=z[1:,2:]; x[mask]=0.; x[mask]=z[mask]; x[idx]=1.; x[idx]=z[:2];
        x[idx]=y; x[idx,idx]=5.; x[:,idx]=z[:,:2]; x[0,idx]=z[0,:2]; x[idx,1]=a; x[0,0]=a; x[None,0]=z[:1];
        x[[0,1]]=3; x[x>1]=-1.; x[0]=z[:1]; x[0]=1; x[0]=i[0].double(); x[0]=f32[0]; x[0]=i[0]; i[0]=2.7;
        i[0]=x.detach()[0]; x[1][2]=7.; v[:,0,:]=1.; v[0,:,idx]=1.; v[:,mask]=0.; y[2]=a; y[:2]=y[2:];
        x[:,:2]=x[:,2:]; x[0,1:3]=T.tensor([1.,2.]); x[:2,None,idx]=1.; b[0]=1; b[0]=True; x[True]=1.; e[:]=1;
        x[1,...]=z[1,...]
    """,
    "products and changes in place": """
        v@y; T.matmul(x,z.t()); T.inner(x,y); T.outer(y,s[0]); i@i.t(); b.float()@b.float().t();
        v.unsqueeze(1)@w; v.unsqueeze(1)@w.unsqueeze(0); v[:,None]@w[None,:,:,:2]; e.t()@e; e@e.t(); v@w[:1];
        T.addmm(s,x,z.t(),beta=0.5,alpha=2); T.addmm(s,x,z.t(),beta=0); T.addmm(a,x,z.t()); s.addmm(x,z.t());
        T.addmv(s[0],x,y); T.addmv(s[0],x,y,alpha=3.); T.baddbmm(T.zeros(2,3,5),v,w,beta=2);
        T.addr(s,s[0],s[1]); T.addr(s,s[0],s[1],alpha=2,beta=3); T.einsum("ij,j",x,y);
        T.einsum("bij,bjk->bik",v,w); T.einsum("...ij,...jk->...ik",v,w); T.einsum("ij , kj -> ik",x,z);
        T.einsum("ij,kj->ik",[x,z]); T.tensordot(x,z,dims=2); T.tensordot(v,w,([0,2],[0,1]));
        T.tensordot(x,z,0); T.tensordot(x,z,dims=([0,1],[0,1])); T.kron(x,s); T.kron(y,y);
        T.cross(s,s[:, [1,0,2]],dim=1); T.cross(s,s+1); T.cross(x,z,dim=0); T.trace(x); T.matrix_power(s,3);
        T.matrix_power(s,1); s.matrix_power(2); T.cross(s,s); x.detach().exp_(); x.exp_(); x.sqrt_(); x.abs_();
        x.neg_(); x.clamp_(0.6,1.2); x.clamp_(min=1); x.relu_(); x.sigmoid_(); x.tanh_();
        x.masked_fill_(mask,0.); x.log_(); x.sin_(); x.cos_(); x.reciprocal_(); x.floor_(); x.round_();
        x.lerp_(z,0.3); x.lerp_(z,u); x.addcmul_(z,z,value=2); x.addcdiv_(z,z); x.add_(1); x.sub_(z,alpha=2);
        x.mul_(y); x.div_(z); x.pow_(2); x.pow_(z); x.copy_(y); x.copy_(i); x.square_(); x.clamp_max_(1.);
        x.clip_(0.5,1); i.add_(1); i.mul_(2); i.clamp_(0,2); i.abs_(); f32.add_(x.detach()); x.add_(f32);
        i.copy_(x.detach()); x.scatter_(0,g,1.); x.scatter_add_(0,g,z); x.index_add_(0,idx,z[:2]);
        x.index_copy_(0,idx,z[:2]); x.index_fill_(0,idx,1.); x.index_put_((idx,),y); x.addmm_(s,z); x.expm1_();
        x.erf_(); x.trunc_(); x.rsqrt_(); x.frac_(); x.masked_fill_(mask,a); x[0].exp_(); x[1:].mul_(2);
        x.view(-1).add_(1); x.t().add_(T.ones(4,3)); x.diagonal().fill_(0.); x.diagonal().mul_(y[:3]);
        x[:,1].zero_(); x[0,1].fill_(4.); x.squeeze(0).mul_(2); x.unsqueeze(0).mul_(z); x.reshape(2,6).mul_(2);
        v.permute(2,0,1).mul_(3); v.diagonal(0,1,2).add_(1.); v.diagonal(1,0,2).add_(1.);
        x.narrow(0,0,1).mul_(y); x.select(1,1).mul_(2); v.flatten(1).mul_(2); v.transpose(0,1)[1].mul_(3)
    """,
    "composed": """
        T.diff(x); T.diff(x,2); T.diff(x,dim=0); x.diff(prepend=x[:,:1]); T.diff(b); T.diff(i); T.trapezoid(y);
        T.trapezoid(x,dx=0.5); T.trapezoid(x,y.cumsum(0)); T.trapezoid(x,dim=0); T.trapz(x,x.cumsum(1));
        T.quantile(y,0.3); x.quantile(0.5,dim=1); x.quantile(0.25,0,True);
        x.quantile(T.tensor([0.1,0.9]),dim=1); f32.quantile(0.3); T.cov(x); T.cov(y); T.cov(x,correction=0);
        T.dist(x,z); T.dist(x,z,1); T.searchsorted(T.tensor([1.,2.,3.]),x.detach());
        T.searchsorted(T.tensor([1,2,3]),i,right=True); T.bucketize(x.detach(),T.tensor([0.5,1.]));
        T.bucketize(x.detach(),T.tensor([0.5,1.]),right=True); T.isin(i,T.tensor([1,2])); i.unique();
        T.unique(i,return_inverse=True); T.unique(i,return_counts=True);
        T.unique(i,return_inverse=True,return_counts=True); T.unique(g,dim=0); str(T.result_type(i,x.detach()));
        x.detach().histc(4,0,2); x.detach().histc(4)
    """,  # in PyTorch several nodes, whose names are not compared
}

ERRORS = {  # each raises the same exception as in PyTorch
    "reductions": """
        x.sum(5); x.sum((0,0)); i.mean(); i.mean(0); b.mean(); e.max(); e.max(0); e.amax(0); e.argmax();
        x.argmax(7); i.norm(); T.linalg.norm(v,2); x.cumsum(); x.cumsum(3); x.logsumexp(); x.softmax();
        x.softmax(dim=3); x.topk(5); x.kthvalue(0)
    """,
    "elements": """
        T.exp(2.0); T.exp("a"); x.clamp(); T.where(x,x,z); x.masked_fill(mask,y); x.lerp(f32,0.5);
        T.isclose(f32,x); i**-1; x+"a"; x+None
    """,
    "shapes": """
        x.view(2,7); x.view(-1,-1); x.view(5,-1); x.t().view(12); e.reshape(0,-1); x.view(-2,6); v.flatten(1,0);
        x.unflatten(1,(3,2)); x.squeeze(4); x.unsqueeze(3); x.transpose(0,2); v.t(); y.mT; v.permute(0,1);
        v.permute(0,0,1); y.expand(-1,4); x.expand(3,5); x.narrow(0,2,2); x.select(0,3); x.split([1,1],1);
        x.split(0); a.unbind(); v.diag(); x.unfold(1,5,1); T.cat([x,y]); T.cat([x,s]); T.cat([a,a]); T.cat([]);
        T.cat([x,1]); T.cat(x); T.cat([x,z],2); T.stack([x,s]); T.stack([]); x.repeat(2); y.tril(); x.size(2);
        x.item(); x.numpy()
    """,
    "indices": """
        x[3]; x[-4]; x[0,4]; x[0,0,0]; a[0]; x[1.5]; x[T.tensor([3])]; x[T.tensor([0,-4])];
        x[T.tensor([1.5])]; x[mask.t()]; x[T.tensor([True,False])]; x.index_select(2,idx); x.gather(1,g[0]);
        x.gather(1,T.tensor([[4]])); x.gather(1,x); i.bincount(); x.scatter(0,g+5,1.); x.scatter(0,g,i);
        x[5]=1.; x[T.tensor([3])]=1.; x[0]="a"; x[0]=None; x[0]=[1,2,3,4]
    """,
    "products and changes in place": """
        x@z; x@s; y@s; x@a; a@x; T.mm(x,y); T.mm(x,z); T.mv(x,s[0]); T.dot(x,x); T.dot(y,s[0]); T.bmm(v,v);
        T.bmm(x,x); T.inner(x,s); T.outer(x,y); x@f32.t(); f32@x.t(); T.dot(y,f32[0]); v@w[:, :3];
        T.addmm(s,x,z); T.addmm(s,x,f32.t()); T.cross(x,z,dim=1); v.trace(); i.add_(1.5); i.div_(2); y.add_(x);
        x.add_(T.zeros(2)); i.exp_(); i.sqrt_(); x.expand(2,3,4).add_(1); y.expand(3,4).add_(1)
    """,
}

NUMPY = """
    np.sin(x); np.sum(x,axis=0); np.ones((3,4))*x; np.float64(2)*x; np.concatenate([x,z]);
    np.mean(x,axis=1); np.add.reduce(x,axis=1); np.linalg.norm(x); np.split(x,[1]); np.argmax(x);
    np.maximum(x,1.0); np.clip(x,0.6,1.2); np.einsum("ij,kj->ik",x,z); np.dot(x,z.T); np.ones((2,3))@x;
    np.max(x); np.std(x); np.outer(y,y); np.stack([x,z],axis=1); np.take(x,[0,1],axis=1); np.transpose(x);
    np.var(x,axis=1,ddof=1); np.prod(x,1); np.interp(u,np.arange(5.),np.arange(5.)**2); np.median(x);
    np.cumsum(x); np.pad(x,1); np.sort(x,axis=0); np.reshape(x,(2,6)); np.tensordot(x,z,([1],[1]));
    np.diff(x); np.roll(x,1); np.trapezoid(y); np.arctan2(x,z); np.hypot(x,z); np.expand_dims(x,0);
    np.squeeze(x); np.broadcast_to(y,(3,4)); np.kron(x,y); np.cross(s,s+1); np.logaddexp(x,z);
    np.arange(3.)@x; x+np.ones(4); np.ones(4)-x; np.arange(4)/y; np.ones((3,4))>x; np.add.outer(y,y);
    np.multiply.reduce(x,axis=0); np.nan_to_num(x); np.heaviside(x,0.5); np.power(x,2); np.square(x);
    np.exp2(x); np.reciprocal(x); np.cbrt(x); np.copy(x); np.ravel(x); np.swapaxes(x,0,1); np.flip(x);
    np.tril(x); np.atleast_2d(y); np.append(y,y); np.average(x); np.trace(s); np.diag(s); np.diagonal(s);
    np.vstack([x,z]); np.repeat(x,2); np.tile(x,2); np.moveaxis(v,0,1); np.array_split(x,2); np.inner(x,z);
    np.vdot(y,y); np.matmul(v,w); np.quantile(y,0.3); np.percentile(x,30.0,axis=0); np.nansum(x); np.ptp(x);
    np.cov(x); np.gradient(y); np.convolve(y,y); np.polyval(y,u); np.linspace(a,2.0,5)
"""


def listed(text: str) -> list[str]:
    """The expressions in one of the texts above."""
    return [part.strip() for part in text.split(";") if part.strip()]


ASKS_FOR_THE_HOST = (".cpu()", '.to("cpu"', ".numpy()")


def flat(value: Any) -> list[Any]:
    """The results of an expression: the items of tuples and lists, whatever their nesting."""
    return [v for part in value for v in flat(part)] if isinstance(value, tuple | list) else [value]
