package millrace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Longer than anything takes that works.
const patience = time.Minute

// clients are of the servers that MILLRACE_TEST_SERVERS names: millrace/tests/languages starts them.
func clients(t *testing.T, test func(*testing.T, *Client)) {
	addresses := strings.Fields(os.Getenv("MILLRACE_TEST_SERVERS"))
	if len(addresses) == 0 {
		t.Skip("MILLRACE_TEST_SERVERS names no servers")
	}
	for _, address := range addresses {
		t.Run(address, func(t *testing.T) {
			client, err := Open(address, &Options{Timeout: patience})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			for _, key := range []string{"k", "n"} {
				if err := client.Delete(key); err != nil && !errors.Is(err, ErrNotFound) {
					t.Fatal(err)
				}
			}
			test(t, client)
		})
	}
}

func is(t *testing.T, what string, err, wanted error) {
	t.Helper()
	if !errors.Is(err, wanted) || (wanted == nil && err != nil) {
		t.Fatalf("%s: %v instead of %v", what, err, wanted)
	}
}

func TestEveryOperation(t *testing.T) {
	clients(t, func(t *testing.T, c *Client) {
		_, err := c.Get("k")
		is(t, "get", err, ErrNotFound)
		is(t, "replace", c.Replace("k", []byte("no"), 0, Forever), ErrNotStored)
		is(t, "append", c.Append("k", []byte("no")), ErrNotStored)
		is(t, "prepend", c.Prepend("k", []byte("no")), ErrNotStored)
		is(t, "touch", c.Touch("k", time.Second), ErrNotFound)
		is(t, "cas", c.CompareAndSwap("k", 1, []byte("no"), 0, Forever), ErrNotFound)
		is(t, "add", c.Add("k", []byte("b\x00"), 7, Forever), nil)
		is(t, "add", c.Add("k", []byte("x"), 0, Forever), ErrNotStored)
		is(t, "append", c.Append("k", []byte("c")), nil)
		is(t, "prepend", c.Prepend("k", []byte("a")), nil)
		item, err := c.Get("k")
		is(t, "get", err, nil)
		if string(item.Value) != "ab\x00c" || item.Flags != 7 || item.Version == 0 {
			t.Fatalf("%+v", item)
		}
		is(t, "cas", c.CompareAndSwap("k", item.Version+1, []byte("no"), 0, Forever), ErrExists)
		is(t, "cas", c.CompareAndSwap("k", item.Version, []byte("new"), 0, Forever), nil)
		is(t, "replace", c.Replace("k", nil, 0, 40*24*time.Hour), nil)
		item, err = c.GetAndTouch("k", time.Hour)
		is(t, "gat", err, nil)
		if len(item.Value) != 0 {
			t.Fatalf("%+v", item)
		}
		is(t, "touch", c.Touch("k", Forever), nil)
		is(t, "set", c.Set("k", []byte("x"), 0, -1), nil)
		_, err = c.Get("k")
		is(t, "get of what has expired", err, ErrNotFound)
	})
}

func TestNumbers(t *testing.T) {
	clients(t, func(t *testing.T, c *Client) {
		_, err := c.Increment("n", 1)
		is(t, "incr", err, ErrNotFound)
		is(t, "set", c.Set("n", []byte("40"), 0, Forever), nil)
		if sum, err := c.Increment("n", 2); sum != 42 || err != nil {
			t.Fatal(sum, err)
		}
		if left, err := c.Decrement("n", 50); left != 0 || err != nil {
			t.Fatal(left, err)
		}
		is(t, "set", c.Set("n", []byte("word"), 0, Forever), nil)
		_, err = c.Increment("n", 1)
		is(t, "incr", err, &Error{Status: NotANumber})
	})
}

func TestMany(t *testing.T) {
	clients(t, func(t *testing.T, c *Client) {
		var keys []string
		for i := 0; i < 600; i++ {
			keys = append(keys, fmt.Sprint("m", i))
			if i%2 == 0 {
				is(t, "set", c.Set(keys[i], []byte(keys[i]), uint32(i), Forever), nil)
			}
		}
		found, err := c.GetMulti(keys)
		is(t, "multi", err, nil)
		if len(found) != 300 {
			t.Fatal(len(found))
		}
		for i := 0; i < 600; i += 2 {
			if item := found[keys[i]]; string(item.Value) != keys[i] || item.Flags != uint32(i) {
				t.Fatalf("%s: %+v", keys[i], item)
			}
		}
		found, err = c.GetMulti(nil)
		is(t, "none", err, nil)
		if len(found) != 0 {
			t.Fatal(found)
		}
	})
}

func TestWhatCannotBeAsked(t *testing.T) {
	clients(t, func(t *testing.T, c *Client) {
		for _, key := range []string{"", "two words", "a\r\nflush_all", strings.Repeat("k", 251)} {
			_, err := c.Get(key)
			is(t, "get", err, &Error{Status: Argument})
			_, err = c.GetMulti([]string{"k", key})
			is(t, "multi", err, &Error{Status: Argument})
		}
		is(t, "set", c.Set("k", make([]byte, 64<<20), 0, Forever), &Error{Status: TooLarge})
		big := bytes.Repeat([]byte("x"), 900_000)
		is(t, "set", c.Set("k", big, 0, Forever), nil)
		item, err := c.Get("k")
		is(t, "get", err, nil)
		if !bytes.Equal(item.Value, big) {
			t.Fatal(len(item.Value))
		}
	})
}

func TestGoroutinesShareAClient(t *testing.T) {
	clients(t, func(t *testing.T, c *Client) {
		is(t, "set", c.Set("n", []byte("0"), 0, Forever), nil)
		var all sync.WaitGroup
		for i := 0; i < 8; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				for i := 0; i < 200; i++ {
					if _, err := c.Increment("n", 1); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		all.Wait()
		item, err := c.Get("n")
		is(t, "get", err, nil)
		if string(item.Value) != "1600" {
			t.Fatalf("%s", item.Value)
		}
	})
}

func TestAClosedClientSaysSo(t *testing.T) {
	clients(t, func(t *testing.T, c *Client) {
		c.Close()
		_, err := c.Get("k")
		is(t, "get", err, &Error{Status: Argument})
	})
}

func TestNobodyThereSaysWhatToDo(t *testing.T) {
	_, err := Open("shm:/nowhere/m.shm", nil)
	is(t, "open", err, &Error{Status: Unreachable})
	if !strings.Contains(err.Error(), "--shm") {
		t.Fatal(err)
	}
	_, err = Open("nonsense", nil)
	is(t, "open", err, &Error{Status: Argument})
}

func TestUsersLogIn(t *testing.T) {
	address := os.Getenv("MILLRACE_TEST_USERS")
	if address == "" {
		t.Skip("MILLRACE_TEST_USERS names no server with the user ann")
	}
	client, err := Open(address, &Options{Timeout: patience, User: "ann", Password: "one"})
	is(t, "open", err, nil)
	is(t, "set", client.Set("k", nil, 0, Forever), nil)
	client.Close()
	_, err = Open(address, &Options{Timeout: patience, User: "ann", Password: "two"})
	is(t, "open", err, &Error{Status: Login})
}
