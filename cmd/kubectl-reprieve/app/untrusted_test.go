package app_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
)

// hostile is text with control characters that a terminal would interpret. They clear the screen,
// set the title, reverse the direction of text, begin two kinds of sequences, and return to the
// start of the line.
const hostile = "\x1b[2J\x1b]0;owned\a\u202e\u009b31m\rfake\nTaken: pod default/faked by nobody"

// requireHarmless checks that a text has no control characters, and that the visible characters of
// hostile are still in it.
func requireHarmless(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			t.Errorf("it has the character %U: %q", r, text)
			return
		}
	}
	// Three forms of escapes are possible: errors quote arguments in another form than the output
	// does.
	if !strings.Contains(text, `\u001b[2J`) && !strings.Contains(text, `\x1b[2J`) && !strings.Contains(text, `\e[2J`) {
		t.Errorf("it does not show what was written: %q", text)
	}
	if strings.Contains(text, "\nTaken: pod default/faked") {
		t.Errorf("it has a line of its own: %q", text)
	}
}

// TestUntrustedText checks that text from users is harmless in the output: messages of events and
// conditions, and names and annotations in a snapshot.
func TestUntrustedText(t *testing.T) {
	t.Parallel()
	event := fmt.Sprintf(`{"metadata":{"namespace":"default","name":"e"},"eventTime":"2026-03-01T11:00:00.000000Z","reason":"Preempted","type":"Normal",
"regarding":{"kind":"Pod","namespace":"default","name":"v"},"related":{"kind":"Pod","namespace":"default","name":"urgent"},"note":%s}`, quoted(told("")+hostile))
	server := apiServer(t, "", "", map[string]string{
		"/apis/events.k8s.io/v1/namespaces/default/events": list("events.k8s.io/v1", "EventList", event),
		"/apis/events.k8s.io/v1/events":                    list("events.k8s.io/v1", "EventList", event),
	})
	said := strings.Replace(victimPod("v", "", `,"nodeName":"n","schedulerName":"reprieve-scheduler"`, "Running"), `the victim's priority is 10"`, `the victim's priority is 10"+`, 1)
	said = strings.Replace(said, `"+`, strings.TrimPrefix(quoted(hostile), `"`), 1)
	named := victimPod("v", "", "", "Running")
	named = strings.Replace(named, `"name":"v"`, `"name":`+quoted("v"+hostile), 1)
	gang := strings.Replace(victimPod("m", `,"annotations":{"reprieve.dev/leads":`+quoted(hostile)+`}`, "", "Pending"), `"status":"True"`, `"status":"False"`, 1)
	for name, c := range map[string]struct {
		snapshot string
		args     []string
	}{
		"an event":                     {args: []string{"history", "-o", "wide"}},
		"an event, by why":             {args: []string{"why", "pod/v"}},
		"an event, in JSON":            {args: []string{"history", "-o", "json"}},
		"a condition":                  {snapshot: said, args: []string{"history", "-o", "wide"}},
		"a condition, by why":          {snapshot: said, args: []string{"why", "pod/v"}},
		"a condition, in YAML":         {snapshot: said, args: []string{"history", "-o", "yaml"}},
		"a name":                       {snapshot: named, args: []string{"history"}},
		"an annotation, in a snapshot": {snapshot: gang, args: []string{"snapshot"}},
		"an argument":                  {snapshot: named, args: []string{"why", "pod/" + hostile}},
		"a command":                    {snapshot: named, args: []string{hostile}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errOut string
			if c.snapshot == "" {
				_, out, errOut = runAt(t, server, c.args...)
			} else {
				_, out, errOut = run(t, map[string]string{"cluster.json": taken(c.snapshot)}, "", append(c.args, "--snapshot", "cluster.json")...)
			}
			requireHarmless(t, out+errOut)
		})
	}
}

// quoted returns a text as a JSON string.
func quoted(text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range text {
		if r < ' ' || r == '"' || r == '\\' {
			fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		out.WriteRune(r)
	}
	out.WriteByte('"')
	return out.String()
}

// TestForgedHistory checks preemptions that an event reports. If an event is the only source,
// history adds "according to an event". If the victim's status reports the preemption too, history
// shows the facts of the status.
func TestForgedHistory(t *testing.T) {
	t.Parallel()
	event := func(victim, preemptor, rule string) string {
		note := fmt.Sprintf("preempted by Pod default/%s (priority 100): %s, the victim's priority is 10", preemptor, rule)
		return fmt.Sprintf(`{"metadata":{"namespace":"default","name":%q},"eventTime":"2026-03-01T11:00:30.000000Z","reason":"Preempted","type":"Normal",
"regarding":{"kind":"Pod","namespace":"default","name":%q},"related":{"kind":"Pod","namespace":"default","name":%q},"note":%q}`, victim+preemptor, victim, preemptor, note)
	}
	events := list("events.k8s.io/v1", "EventList", event("v", "urgent", "Forged"), event("v", "rival", "Forged"), event("gone", "rival", "Forged"))
	server := apiServer(t, "", "", map[string]string{
		"/apis/events.k8s.io/v1/namespaces/default/events": events, "/apis/events.k8s.io/v1/events": events,
		"/api/v1/pods": list("v1", "PodList", victimPod("v", "", `,"nodeName":"n","schedulerName":"reprieve-scheduler"`, "Running")),
	})
	_, out, errOut := runAt(t, server, "history")
	lines := map[string]string{}
	for _, line := range strings.Split(out, "\n") {
		if f := strings.Fields(line); len(f) > 5 {
			lines[f[2]+" "+f[4]] = strings.Join(append(f[:1:1], f[5:]...), " ")
		}
	}
	for of, want := range map[string]string{
		"default/v default/urgent":   "2026-03-01T11:00:00Z Reclaim status",
		"default/v default/rival":    "2026-03-01T11:00:30Z Forged according to an event",
		"default/gone default/rival": "2026-03-01T11:00:30Z Forged according to an event",
	} {
		if lines[of] != want {
			t.Errorf("%s: %q, want %q; it says %s%s", of, lines[of], want, out, errOut)
		}
	}
	if _, out, errOut := runAt(t, server, "why", "pod/gone"); !strings.Contains(out, "Taken: pod default/gone by pod default/rival, 2026-03-01T11:00:30Z, rule Forged, according to an event: preempted") {
		t.Errorf("why says %s%s", out, errOut)
	}
}
