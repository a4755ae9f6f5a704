// spymemcached (Maven), a client of the binary protocol, against a server on 127.0.0.1: arguments are its port, and user and password where clients log in.
//
// Prints "spymemcached: all is well" at the end; anything unexpected throws.

import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.logging.Level;
import java.util.logging.Logger;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.CASResponse;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionFactoryBuilder.Protocol;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.auth.AuthDescriptor;
import net.spy.memcached.auth.PlainCallbackHandler;

public class SpymemcachedClient {
    // Milliseconds for an answer: a machine that is busy with other tests is slow.
    static final long PATIENCE = 30_000;

    static void check(Object got, Object wanted, String what) {
        if (!Objects.equals(got, wanted)) {
            throw new AssertionError(what + ": got " + got + ", wanted " + wanted);
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
        Logger.getLogger("net.spy").setLevel(Level.OFF);
        ConnectionFactoryBuilder factory = new ConnectionFactoryBuilder().setProtocol(Protocol.BINARY).setOpTimeout(PATIENCE);
        if (arguments.length > 1) {
            PlainCallbackHandler handler = new PlainCallbackHandler(arguments[1], arguments[2]);
            AuthDescriptor login = new AuthDescriptor(new String[] {"PLAIN"}, handler);
            factory.setAuthDescriptor(login).setAuthWaitTime(PATIENCE);
        }
        List<InetSocketAddress> addresses = AddrUtil.getAddresses("127.0.0.1:" + arguments[0]);
        MemcachedClient c = new MemcachedClient(factory.build(), addresses);
        try {
            check(c.flush().get(), true, "flush");
            check(c.get("absent"), null, "miss");
            for (Object value : new Object[] {"hello", "", "END\r\n", 42, 7L << 40, true, "x".repeat(300_000)}) {
                check(c.set("k", 100, value).get(), true, "set");
                check(c.get("k"), value, "get");
            }
            check(c.add("k", 0, "other").get(), false, "add of what is there");
            check(c.add("fresh", 0, "b").get(), true, "add");
            check(c.replace("nothing", 0, "x").get(), false, "replace of nothing");
            check(c.append("fresh", "c").get() && c.prepend("fresh", "a").get(), true, "append and prepend");
            Map<String, Object> many = new HashMap<>();
            for (int i = 0; i < 200; i++) {
                many.put("many" + i, "value " + i);
                c.set("many" + i, 0, "value " + i);
            }
            check(c.getBulk(many.keySet()), many, "many gets");
            long version = c.gets("fresh").getCas();
            check(c.gets("fresh").getValue(), "abc", "gets");
            check(c.cas("fresh", version, "d"), CASResponse.OK, "cas");
            check(c.cas("fresh", version, "e"), CASResponse.EXISTS, "cas of an old version");
            check(c.incr("count", 5, 7), 7L, "incr makes it");
            check(c.incr("count", 5), 12L, "incr");
            check(c.decr("count", 20), 0L, "decr stops at 0");
            check(c.touch("count", 100).get(), true, "touch");
            check(c.getAndTouch("fresh", 100).getValue(), "d", "get and touch");
            check(c.delete("fresh").get(), true, "delete");
            check(c.get("fresh"), null, "after delete");
            Map<String, String> stats = c.getStats().values().iterator().next();
            check(Long.parseLong(stats.get("curr_connections")) > 0, true, "stats");
            check(c.flush().get(), true, "flush");
            check(c.get("k"), null, "after flush");
        } finally {
            c.shutdown();
        }
        System.out.println("spymemcached: all is well");
    }
}
