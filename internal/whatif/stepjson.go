package whatif

import (
	"encoding/json"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// protectedJSON is a protected unit in answers: like all moments there, its end is RFC 3339 in UTC.
type protectedJSON struct {
	core.UnitRef
	Rule core.Rule `json:"rule"`
	// Until is the last moment of the protection, and Endless is true for one that is only lifted.
	Until   *time.Time `json:"until,omitempty"`
	Endless bool       `json:"endless,omitempty"`
	Queue   string     `json:"queue,omitempty"`
}

// MarshalJSON writes the step with the ends of protections as moments.
func (s Step) MarshalJSON() ([]byte, error) {
	type plain Step
	out := struct {
		plain
		Protected []protectedJSON `json:"protected,omitempty"`
	}{plain: plain(s)}
	for _, p := range s.Protected {
		unit := protectedJSON{UnitRef: p.UnitRef, Rule: p.Rule, Queue: p.Queue, Endless: p.Until == core.Forever}
		if !unit.Endless {
			unit.Until = timeOf(p.Until)
		}
		out.Protected = append(out.Protected, unit)
	}
	return json.Marshal(out)
}
