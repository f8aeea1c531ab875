package sagatest

// SetRates changes the rates while nobody else uses f.
func (f *Faults) SetRates(r Rates) { f.rates = r }
