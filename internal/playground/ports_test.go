package playground

import (
	"net"
	"strconv"
	"testing"
)

func TestFreePortCanBeBound(t *testing.T) {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	if portIsFree(port) {
		t.Errorf("port %d counts as free while something listens on it", port)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDrawPort(t *testing.T) {
	taken := map[int]bool{100: true, 101: true}
	next := 0
	inTurn := func(n int) int {
		next++
		return (next - 1) % n
	}
	port, err := drawPort(100, 103, inTurn, func(port int) bool { return !taken[port] })
	if err != nil || port != 102 {
		t.Errorf("got %d, %v, want the one port that is free, 102", port, err)
	}
	if port, err := drawPort(100, 102, inTurn, func(port int) bool { return !taken[port] }); err == nil {
		t.Errorf("got %d where all are taken", port)
	}
	if port, err := drawPort(100, 100, inTurn, func(int) bool { return true }); err == nil {
		t.Errorf("got %d from an empty range", port)
	}
}

func TestParseEphemeralStart(t *testing.T) {
	const fallback = 30000
	for raw, want := range map[string]int{
		"32768\t60999\n": 32768,
		"20000 65535":    20000,
		"1024 65535":     fallback,
		"":               fallback,
		"all of them":    fallback,
		"70000 80000":    fallback,
	} {
		if got := parseEphemeralStart(raw, fallback); got != want {
			t.Errorf("%q gives %d, want %d", raw, got, want)
		}
	}
}
