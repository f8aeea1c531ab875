package sagatest

// SetRates changes the rates. No other goroutine may use f at the same time.
func (f *Faults) SetRates(r Rates) { f.rates = r }
