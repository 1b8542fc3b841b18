package whatif

import (
	"encoding/json"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// protectedJSON is the JSON form of a protected unit. All times in the output are in RFC 3339 and
// UTC.
type protectedJSON struct {
	core.UnitRef
	Rule core.Rule `json:"rule"`
	// Until is the last moment of the protection.
	Until *time.Time `json:"until,omitempty"`
	// Endless is true if the protection has no end.
	Endless bool   `json:"endless,omitempty"`
	Queue   string `json:"queue,omitempty"`
}

// MarshalJSON encodes the step. The ends of protections are times instead of nanoseconds.
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
