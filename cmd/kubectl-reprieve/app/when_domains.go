package app

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// inDomains returns a phrase that names topology domains; "" for none.
func inDomains(domains []whatif.Domain) string {
	if len(domains) == 0 {
		return ""
	}
	names := make([]string, len(domains))
	for i, d := range domains {
		names[i] = d.Key + "=" + d.Name
	}
	return " in " + strings.Join(names, ", ")
}

// showLevel prints when the domains of a topology level have room for a gang.
func showLevel(to io.Writer, l *whatif.LevelBounds) {
	for i := range l.Domains {
		d := &l.Domains[i]
		fmt.Fprintf(to, "%s: %s=%s: %s.\n", saysDomain, l.Key, d.Name, roomIn(d))
	}
	if l.Unlisted > 0 {
		fmt.Fprintf(to, "%s: %s: %s not listed.\n", saysDomain, l.Key, plural(l.Unlisted, "more domain"))
	}
}

// roomIn returns a phrase for the time when a domain has room, or for the missing room.
func roomIn(d *whatif.DomainBounds) string {
	if d.AtTheLatest == nil && d.Lacks == nil {
		return "unknown"
	}
	if d.AtTheLatest == nil {
		return missingIn(d.Lacks)
	}
	from := ""
	if d.NotBefore != nil {
		from = fmt.Sprintf("not before %s (%s), ", d.NotBefore.UTC().Format(time.RFC3339), d.BecauseOf)
	}
	return fmt.Sprintf("room %sat the latest %s: %s", from, d.AtTheLatest.UTC().Format(time.RFC3339), d.Then)
}

// missingIn returns a phrase for the missing room in a domain, and for the work in the way.
func missingIn(r *whatif.DomainRoom) string {
	if r.Empty != nil {
		return fmt.Sprintf("never with its nodes as they are: room for %d of %d even without other pods", *r.Empty, r.Needed)
	}
	said := fmt.Sprintf("unknown: room for %d of %d after all declared ends", r.Room, r.Needed)
	if r.AfterPreemption > r.Room {
		said += fmt.Sprintf(", for %d after preemption", r.AfterPreemption)
	}
	var reasons []string
	if len(r.InTheWay) > 0 {
		reasons = append(reasons, "in the way: "+core.ProtectedNote(r.InTheWay))
	}
	if r.Endless > 0 {
		reasons = append(reasons, fmt.Sprintf("%d of the pods that run there declare no end", r.Endless))
	}
	if r.Unread > 0 {
		reasons = append(reasons, fmt.Sprintf("the Jobs of %s that run there are unknown, and so are their ends", plural(r.Unread, "pod")))
	}
	return strings.Join(append([]string{said}, reasons...), "; ")
}
