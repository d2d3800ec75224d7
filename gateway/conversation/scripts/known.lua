-- known(c, dedupe hash...) -> COLD | KNOWN | NEW: what `accept` would say of it, were there room
return { cold() and 'COLD' or known(ARGV[2], 3) and 'KNOWN' or 'NEW' }
